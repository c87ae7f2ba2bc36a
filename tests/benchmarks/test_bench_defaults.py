"""The table of defaults: what is trained, what the numbers of the table say."""

import numpy as np
import pytest
from benchmarks.defaults_cells import CELLS, DefaultsCell
from benchmarks.settings import OURS, REFERENCE

from benchmarks import defaults, defaults_page
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.experiment.config.presets import presets

COUNTS = {"sac": 6, "td3": 6, "dqn": 6, "qrdqn": 3, "ppo": 12, "a2c": 12}


def line(cell, side, seed, value):
    versions = {side: {"torch": "2"}}
    machine = {"cores": 2, "processor": "x"}
    fields = {"cell": cell.key, "side": side, "seed": seed, "returns": [value - 1, value + 1]}
    return {**fields, "versions": versions, "machine": machine, "date": "2026-01-01"}


def sides(mine, theirs):
    return {OURS: np.array(mine, float), REFERENCE: np.array(theirs, float)}


def test_the_cells_are_those_that_were_agreed_and_have_no_preset():
    assert {algo: sum(cell.algo == algo for cell in CELLS) for algo in COUNTS} == COUNTS
    for algo, count in COUNTS.items():
        assert abs(sum(cell.chosen_on for cell in CELLS if cell.algo == algo) - count / 2) <= 0.5
    assert len({cell.key for cell in CELLS}) == len(CELLS)
    tuned = [read_file(path).data for path in presets()]
    assert not {(x["policy"]["algo"], x["env"]["id"]) for x in tuned} & {(cell.algo, cell.env_id) for cell in CELLS}
    assert len(defaults.identity(CELLS[0], OURS)) == 16
    with pytest.raises(SystemExit, match="without a preset"):
        defaults.identity(DefaultsCell("ppo", "CartPole-v1", True, 1, 2048), OURS)


def test_both_sides_are_asked_for_as_many_steps_and_nothing_else():
    (mine,) = defaults.tasks([CELLS[0]], OURS, 1)
    (theirs,) = defaults.tasks([CELLS[0]], REFERENCE, 1)
    assert mine.job()["overrides"] == ["train.epochs=10", "train.steps_per_epoch=1000"]
    assert theirs.job()["env_steps"] == 10_000
    assert theirs.job()["zoo"]["model"] == {}
    grid = next(cell for cell in CELLS if cell.env_id.startswith("MiniGrid"))
    assert grid.overrides[2:] == ["env.wrappers=[ImgObsWrapper, FlattenObservation]"]
    assert grid.peer["wrappers"] == ["ImgObsWrapper", "FlattenObservation"]


def test_seeds_come_algorithm_by_algorithm_and_stored_ones_are_not_repeated(monkeypatch):
    cells = [cell for cell in CELLS if cell.algo in ("td3", "qrdqn")]
    wanted = defaults.tasks(cells, REFERENCE, 2)
    order = [(task.cell.algo, task.seed) for task in wanted]
    assert order == [("td3", 0)] * 6 + [("td3", 1)] * 6 + [("qrdqn", 0)] * 3 + [("qrdqn", 1)] * 3
    done = {"identity": wanted[0].identity, **line(cells[0], REFERENCE, 0, 1.0), "returns": [0.0] * 20}
    assert defaults.missing(wanted, [done]) == wanted[1:]
    assert defaults.missing(wanted, [{**done, "identity": "other steps"}]) == wanted
    monkeypatch.setattr(defaults, "CELLS", cells[:1])
    assert defaults.current_lines([done, {**done, "identity": "other steps"}]) == [done]


def test_the_probability_of_improvement_counts_pairs_and_ties():
    certain = defaults_page.improvement([sides([2, 3], [0, 1])])
    assert (certain.value, certain.low, certain.high) == (1.0, 1.0, 1.0)
    assert defaults_page.improvement([sides([1, 1], [1, 1])]).value == 0.5
    mixed = defaults_page.improvement([sides([0, 2], [1, 1]), sides([5, 5], [1, 1])])
    assert mixed.value == 0.75  # the mean over cells of 0.5 and 1
    assert mixed.low == 0.5  # the first cell's two seeds may both be the lower one
    assert mixed == defaults_page.improvement([sides([0, 2], [1, 1]), sides([5, 5], [1, 1])])


def test_below_means_that_the_whole_interval_is():
    assert defaults_page.is_below(sides([1, 2, 3], [4, 5, 6]))
    assert not defaults_page.is_below(sides([1, 2, 9], [4, 5, 6]))
    assert not defaults_page.is_below(sides([4, 5, 6], [1, 2, 3]))


def test_the_report_says_what_is_reached_and_what_is_missing():
    first, second = CELLS[0], CELLS[1]
    lines = [line(first, side, seed, value + seed) for side, value in ((OURS, 9), (REFERENCE, 0)) for seed in range(5)]
    text = defaults_page.report([*lines, line(second, OURS, 0, 3.0)])
    assert "| sac | 1 of 6 | 1.00 [1.00, 1.00] | - | none | open: seeds are missing |" in text
    assert f"| sac, {first.env_id} | chosen on | 10,000 | 11.0" in text
    assert f"- Stable-Baselines3, sac: {second.env_id} 5" in text
    assert "- RLStudio, td3: " in text
    worse = [{**x, "side": REFERENCE if x["side"] == OURS else OURS} for x in lines]
    worse = [{**x, "versions": {x["side"]: {"torch": "2"}}} for x in worse]
    assert "**below**" in defaults_page.report(worse)
    whole = [line(cell, side, seed, 1.0) for cell in CELLS for side in (OURS, REFERENCE) for seed in range(5)]
    assert "| sac | 6 of 6 | 0.50 [0.50, 0.50] | 0.50 [0.50, 0.50] | none | reached |" in defaults_page.report(whole)
    sac = [x for x in whole if x["cell"] != first.key] + worse
    assert f"| {first.env_id} | **missed** |" in defaults_page.report(sac)
    assert defaults_page.report([]) == "No seed has been trained yet."
