"""Two trees compared: what is read from a run's folder, and that the second worktree goes again, whatever happens."""

import json
import os
from collections import Counter

import pytest
from benchmarks.same_bits import RUNS, compare, counts, first_difference, read_result, results_of
from benchmarks.trees import CommandFailed, Tree, base_revision, base_tree
from benchmarks.venvs import ROOT

from benchmarks import same_bits, trees
from rlstudio.core.catalog import ALGOS
from rlstudio.experiment.config.experiment import experiment_from


def line(step, key, value, *tags):
    return {"ts": 0.0, "step": step, "key": key, "value": value, "tags": list(tags)}


def write_run(folder, hashes, lines):
    for step, state_hash in hashes.items():
        checkpoint = folder / "20260101-ppo" / "checkpoints" / f"step-{step:012d}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "MANIFEST.json").write_text(json.dumps({"state_hash": state_hash}))
    (folder / "20260101-ppo").mkdir(exist_ok=True)
    for name, part in lines.items():
        (folder / "20260101-ppo" / name).write_text("".join(f"{json.dumps(record)}\n" for record in part))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Three commits of a tree on main; what git is configured to do here decides nothing."""
    monkeypatch.setattr(trees, "ROOT", tmp_path)
    for variable, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}.items():
        monkeypatch.setenv(variable, value)
    trees.git("init", "-q", "-b", "main")
    for number in range(3):
        (tmp_path / "number").write_text(str(number))
        trees.git("add", "number")
        trees.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", str(number))
    return tmp_path


def test_fourteen_runs_and_every_algorithm():
    assert len({run.name for run in RUNS}) == len(RUNS) == 14
    assert {run.algo for run in RUNS if run.vectorization == "native"} == set(ALGOS.builtin)
    assert Counter(run.algo for run in RUNS)["ppo"] == Counter(run.algo for run in RUNS)["dqn"] == 3


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_experiments_are_valid_and_learn_before_they_end(run):
    train = experiment_from(run.experiment).train
    assert getattr(train, "learning_starts", 0) <= train.planned_steps // 2


def test_reads_the_last_checkpoint_and_all_files_of_metrics(tmp_path):
    files = {"metrics-0001.jsonl": [line(1, "a", 0.5)], "metrics.jsonl": [line(2, "a", None, "nan")]}
    write_run(tmp_path, {1: "old", 2: "last"}, files)
    result = read_result(tmp_path)
    assert result.state_hash == "last"
    assert result.metrics == {(1, "a", ()): [0.5], (2, "a", ("nan",)): [None]}


def test_a_run_without_a_checkpoint_is_an_error(tmp_path):
    with pytest.raises(CommandFailed, match="0 runs with metrics"):
        read_result(tmp_path)
    write_run(tmp_path, {}, {"metrics.jsonl": []})
    with pytest.raises(CommandFailed, match="no checkpoint"):
        read_result(tmp_path)


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        ([line(1, "a", 0.5), line(2, "b", 0.0)], None),
        ([line(2, "b", 0.0), line(1, "a", 0.5)], None),
        ([line(1, "a", 0.5), line(2, "b", 0.0), line(2, "speed", 9.0, "clock")], None),
        ([line(1, "a", 0.25), line(2, "b", 1.0)], "a at step 1: 0.5 -> 0.25"),
        ([line(1, "a", 0.5), line(2, "b", -0.0)], "b at step 2: 0.0 -> -0.0"),
        ([line(1, "a", 0.5), line(2, "b", None, "nan")], "b at step 2: 0.0 -> absent"),
        ([line(1, "a", 0.5)], "b at step 2: 0.0 -> absent"),
        ([line(1, "a", 0.5), line(2, "b", 0.0), line(2, "c", 1.0)], None),
        ([line(1, "a", 0.5), line(2, "b", 0.0), line(2, "b", 0.0)], "b at step 2: 0.0 -> 0.0, 0.0"),
    ],
)
def test_the_first_metric_that_differs_is_named(new, difference):
    base = [line(1, "a", 0.5), line(2, "b", 0.0), line(2, "speed", 1.0, "clock")]
    assert first_difference(results_of(base), results_of(new)) == difference


@pytest.mark.parametrize(("state_hash", "value", "same"), [("h", 1.0, True), ("other", 1.0, False), ("h", 2.0, False)])
def test_weights_and_metrics_must_both_agree(tmp_path, state_hash, value, same):
    for title, facts in {"base": ("h", 1.0), "new": (state_hash, value)}.items():
        write_run(tmp_path / title / "ppo", {1: facts[0]}, {"metrics.jsonl": [line(1, "a", facts[1])]})
    sides = [Tree(tmp_path, "base"), Tree(tmp_path, "new")]  # runs that are there are not trained again
    row, is_same = compare(RUNS[0], sides, tmp_path)
    assert (row[0], is_same) == ("ppo", same)


def test_what_only_the_new_tree_measures_is_named_beside_what_is_equal():
    base, new = results_of([line(1, "a", 0.5)]), results_of([line(0, "a", 0.25), line(1, "a", 0.5)])
    assert counts(base, new) == "1 equal, 1 new at step 0"
    assert counts(base, base) == "1 equal"


def test_a_run_that_fails_is_a_row(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\nrlctl = "no_such_module:main"\n')
    row, is_same = compare(RUNS[0], [Tree(tmp_path, "base")] * 2, tmp_path)
    assert not is_same
    assert "failed in base" in row[2]
    assert "no_such_module" in row[2]


def test_a_name_that_is_no_run_is_refused(capsys):
    with pytest.raises(SystemExit):
        same_bits.arguments(["--only", "ppo,nothing"])
    assert "--only nothing: no such run" in capsys.readouterr().err


def test_this_tree_is_the_one_that_is_used(tmp_path):
    trees.working_tree().check(tmp_path)
    with pytest.raises(CommandFailed, match="its src is not used"):
        Tree(tmp_path / "empty", "base").check(ROOT / "src")  # the folder it starts in has an RLStudio


@pytest.mark.parametrize("error", [KeyboardInterrupt, CommandFailed])
def test_the_worktree_goes_after_an_error(repository, error):
    roots = []

    def fail():
        with base_tree("HEAD~1") as tree:
            assert (tree.root / "number").read_text() == "1"
            (tree.root / "left behind").write_text("")
            roots.append(tree.root)
            raise error

    with pytest.raises(error):
        fail()
    assert not roots[0].exists()
    assert len(trees.git("worktree", "list").splitlines()) == 1


def test_the_base_is_where_the_branch_left_main_else_the_commit_before(repository):
    commits = trees.git("rev-list", "--reverse", "HEAD").splitlines()
    assert base_revision(None) == (commits[1], "HEAD~1")
    assert base_revision("HEAD") == (commits[2], "HEAD")
    trees.git("checkout", "-q", "-b", "other", commits[0])
    (repository / "number").write_text("4")
    trees.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-a", "-m", "4")
    assert base_revision(None) == (commits[0], "where this branch left main")
    with pytest.raises(CommandFailed, match="--base nowhere: no such commit"):
        base_revision("nowhere")


def test_settings_of_the_caller_do_not_reach_a_tree(tmp_path, monkeypatch):
    monkeypatch.setenv("RLSTUDIO_DB", "postgresql://elsewhere")
    environment = Tree(tmp_path, "base").environment(tmp_path)
    assert "RLSTUDIO_DB" not in environment
    assert environment["PYTHONPATH"] == str(tmp_path / "src")
    assert environment["OMP_NUM_THREADS"] == "1"
