"""Speed of two trees: how readings become a verdict. Nothing here depends on how fast anything is."""

import pytest
from benchmarks.same_speed import EXPERIMENTS, WARM_UP_EPOCHS, arguments, in_turns, measure, row_of, steps_per_second
from benchmarks.trees import CommandFailed, Tree

from benchmarks import same_speed
from rlstudio.experiment.config.experiment import experiment_from


def epoch(rate):
    return [{"key": "train/loss", "value": 1.0}, {"key": "time/steps_per_second", "value": rate}]


def run(*rates):
    return [record for rate in rates for record in epoch(rate)]


def test_the_rate_is_steps_by_seconds_without_the_warm_up():
    assert steps_per_second(run(1.0, 1.0, 100.0, 300.0)) == pytest.approx(2 / (1 / 100 + 1 / 300))
    with pytest.raises(CommandFailed, match="no epoch after the first 2"):
        steps_per_second(run(1.0, 1.0))


def test_a_pair_is_compared_with_itself_and_the_median_counts():
    row, ratio = row_of("ppo", base=[100.0, 10.0, 1000.0], new=[90.0, 10.0, 2000.0])
    assert ratio == 1.0
    assert row == ["ppo", "100", "90", "1.000", "0.950 to 1.500", "0.900 to 2.000"]
    assert row_of("ppo", [100.0], [50.0])[1] == 0.5


def test_who_goes_first_alternates(tmp_path):
    base, new = Tree(tmp_path, "base"), Tree(tmp_path, "new")
    assert [in_turns((base, new), repeat)[0].title for repeat in range(3)] == ["base", "new", "base"]


def test_each_reading_belongs_to_its_tree(tmp_path, monkeypatch):
    launched = []
    monkeypatch.setattr(Tree, "launch", lambda tree, case, runs_dir, place: launched.append(runs_dir))
    monkeypatch.setattr(same_speed, "run_folder", lambda runs_dir: runs_dir)
    speeds = {"base": 100.0, "new": 50.0}
    monkeypatch.setattr(same_speed, "metric_records", lambda folder: run(1.0, 1.0, speeds[folder.parent.name]))
    trees = Tree(tmp_path, "base"), Tree(tmp_path, "new")
    rates = measure({"name": "ppo"}, trees, 3, tmp_path)
    assert rates == {"base": [100.0] * 3, "new": [50.0] * 3}
    assert len(set(launched)) == 6
    assert [folder.parent.name for folder in launched] == ["base", "new", "new", "base", "base", "new"]


@pytest.mark.parametrize("case", EXPERIMENTS, ids=lambda case: case["name"])
def test_experiments_are_valid_and_longer_than_the_warm_up(case):
    cfg = experiment_from(case)
    assert cfg.train.epochs > WARM_UP_EPOCHS
    learning_starts = getattr(cfg.train, "learning_starts", 0)
    assert learning_starts <= WARM_UP_EPOCHS * cfg.train.steps_per_epoch


def test_no_pairs_are_refused(capsys):
    with pytest.raises(SystemExit):
        arguments(["--pairs", "0"])
    assert "--pairs 0: at least 1" in capsys.readouterr().err
