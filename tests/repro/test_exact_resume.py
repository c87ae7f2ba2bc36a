"""kill -9 at any moment, resume, and the end is the uninterrupted run's, bit for bit."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.storage import failpoint
from support.checkpoint_scenario import leftovers
from support.datasets import DATASET, recorded_dataset
from support.deadlines import SLOWNESS
from support.kills import Step, Twin, has_workers, kill_and_compare, uninterrupted
from support.processes import in_child
from support.tiny_runs import TRAIN, assert_same_result, config, only_run, run_to_the_end

pytestmark = pytest.mark.real_process

CASES = [(algo, vectorization) for algo in ("ppo", "dqn") for vectorization in ("native", "sync", "async")]
CASES += [(algo, "native") for algo in (*TRAIN, "bc") if algo not in ("ppo", "dqn")]
QUICK = [case for case in CASES if case not in (("ppo", "sync"), ("dqn", "async"))]
"""Every algorithm, and every way to step environments; the other two are among the two hundred kills."""

WRITERS = [("ppo", "native"), ("dqn", "native"), ("dqn", "sync"), ("ppo", "async"), ("bc", "native")]
"""Runs that change the disk in their own way: with and without replay, with other processes, with a dataset."""

SAMPLED = [(*writer, 113 if "async" in writer else 43) for writer in WRITERS]  # async: each run starts more processes
EVERY = [pytest.param(*writer, 1, marks=pytest.mark.slow) for writer in WRITERS]


@pytest.fixture(scope="module", autouse=True)
def _dataset(tmp_path_factory):
    """What `bc` learns from."""
    with recorded_dataset(tmp_path_factory.mktemp("datasets")):
        yield


def settings(algo: str, **changes) -> dict:
    """The section `train` of an algorithm."""
    cloning = {"epochs": 12, "steps_per_epoch": 128, "batch_size": 32, "dataset": DATASET}
    return {**TRAIN.get(algo, cloning), **changes}


@pytest.mark.parametrize(("algo", "vectorization"), QUICK)
def test_random_kills(algo, vectorization, tmp_path):
    cfg = config(
        algo,
        vectorization,
        train=settings(algo, epochs=3),  # beyond the first evaluation and the first point to roll back to
        eval={"every_epochs": 2, "episodes": 2, "final_episodes": 2},
        guardrails={"rollback_every_epochs": 2},
        ckpt={"every_seconds": 0.03, "keep_last": 2},  # also inside epochs
    )
    kills = 2 if algo in ("ppo", "dqn") else 1  # a second one comes to a run that was resumed, whatever it learns by
    twin = uninterrupted(cfg, tmp_path / "whole")
    assert len(kill_and_compare(cfg, twin, tmp_path, kills, seed=CASES.index((algo, vectorization)))) == kills
    print(f"{kills} kills of {algo}, {vectorization}")


def test_only_a_kill_after_training_counts():
    """A twin that collected at first, then took two gradient steps: it trained once the first of them was done."""
    steps = [Step(0, 0, 1.0), Step(16, 0, 2.0), Step(32, 1, 3.0), Step(48, 2, 4.0)]
    twin = Twin(None, steps, ended=6.0)
    assert [twin.has_trained(steps[0], step) for step in steps] == [False, False, True, True]
    assert [twin.has_trained(steps[2], step) for step in steps] == [False, False, False, True]
    assert [Twin(None, steps[:2], ended=6.0).has_trained(steps[0], step) for step in steps[:2]] == [False, True]
    drawn = [twin.moment(steps[0], random.Random(seed)) for seed in range(200)]
    assert {step for step, _ in drawn} == set(steps[2:])
    assert twin.moment(steps[-1], random.Random(0)) is None  # killed after its last checkpoint: nothing left to train
    assert all(0 <= seconds <= (1.0 if step is steps[2] else 2.0) for step, seconds in drawn)


@pytest.mark.slow
@pytest.mark.timeout(1800 * SLOWNESS)
@pytest.mark.parametrize(("algo", "vectorization"), CASES)
def test_two_hundred_random_kills(algo, vectorization, tmp_path):
    ckpt = {"every_seconds": 0.03, "keep_last": 2}  # also in the middle of epochs
    cfg = config(algo, vectorization, train=settings(algo), ckpt=ckpt)
    twin = uninterrupted(cfg, tmp_path / "whole")
    for seed in range(5):
        assert len(kill_and_compare(cfg, twin, tmp_path / str(seed), kills=3, seed=seed)) == 3


@pytest.mark.parametrize(("algo", "vectorization", "every"), [*SAMPLED, *EVERY])
def test_kill_at_every_file_system_operation(algo, vectorization, every, tmp_path):
    """Every change of the disk that a run makes, from its first checkpoint's first byte to its last status.

    The quick suite visits a sample that begins elsewhere in each run, at odd distances: whole and torn writes in turn.
    """
    cfg = config(
        algo,
        vectorization,
        train=settings(algo, epochs=4, steps_per_epoch=64),
        ckpt={"every_seconds": None, "every_epochs": 2, "keep_last": 1},
        eval={"every_epochs": 2, "episodes": 1, "final_episodes": 1},
    )
    operations = tmp_path / "operations"

    def counted():
        failpoint.restart()
        run_to_the_end(cfg, tmp_path / "whole")
        operations.write_text(str(failpoint.passed()))

    assert in_child(counted, has_workers(cfg)) == 0
    reference, total = only_run(tmp_path / "whole"), int(operations.read_text())
    assert total > 40

    def killed(number: int, runs_dir: Path) -> None:
        os.environ[failpoint.VARIABLE] = f"{number}:{'torn' if number % 2 else 'kill'}"
        failpoint.restart()
        run_to_the_end(cfg, runs_dir)

    workers = has_workers(cfg)
    first = 1 + 4 * WRITERS.index((algo, vectorization)) % every
    points = range(first, total + 1, every)
    for number in points:
        runs_dir = tmp_path / f"at-{number}"
        assert in_child(lambda number=number, runs_dir=runs_dir: killed(number, runs_dir), workers) == 9, number
        assert in_child(lambda runs_dir=runs_dir: run_to_the_end(cfg, runs_dir), workers) == 0, number
        assert_same_result(only_run(runs_dir), reference)
        assert leftovers(only_run(runs_dir).path) == [], number
    print(f"killed at {len(points)} of {total} changes of {algo}, {vectorization}")


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_when_and_how_often_checkpoints_are_taken_changes_nothing(algo, tmp_path):
    sections = {"train": {**TRAIN[algo], "epochs": 3}, "guardrails": {"rollback_every_epochs": 2}}
    whole = run_to_the_end(config(algo, "native", **sections), tmp_path / "whole")
    for i, ckpt in enumerate([{"every_seconds": 1e-9}, {"every_seconds": None}, {"every_epochs": 1, "keep_last": 9}]):
        other = run_to_the_end(config(algo, "native", **sections, ckpt=ckpt), tmp_path / str(i))
        assert_same_result(other, whole)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_evaluation_never_touches_training(algo, tmp_path):
    """The trained state is the same with and without evaluation."""
    states, train = [], {**TRAIN[algo], "epochs": 4}
    for i, evaluation in enumerate([{"every_epochs": 1, "episodes": 3}, {"every_epochs": 0}]):
        cfg = config(algo, "native", train=train, eval={**evaluation, "final_episodes": 1})
        run = run_to_the_end(cfg, tmp_path / str(i))
        content = Checkpoints(run.path, run.id, None).newest_good().loaded.content
        content["trainer_state"].pop("session")
        states.append({**content, "meta": {}})
    one, other = (_flat(state) for state in states)
    assert one.keys() == other.keys()
    assert all(one[key] == other[key] for key in one)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_resume_at_each_checkpoint_reaches_the_same_end(algo, tmp_path, every):
    cfg = config(algo, "native", ckpt={"every_seconds": None, "every_epochs": 1, "keep_last": 100})
    run = run_to_the_end(cfg, tmp_path / "whole")
    final = run.read_status()
    steps = [info.step for info in Checkpoints(run.path, run.id, None).list()]
    assert len(steps) >= 12
    for step in steps[1::every]:
        with FileLease(run.path) as lease:
            Checkpoints(run.path, run.id, lease).discard_after(step)
        run.write_status(replace(run.read_status(), state=RunState.INTERRUPTED))
        again = run_to_the_end(cfg, tmp_path / "whole")
        assert again.read_status().state_hash == final.state_hash


def _flat(value, prefix=""):
    """Every leaf of a nested state as bytes or text, by its path."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in _flat(part, f"{prefix}/{key}").items()}
    if isinstance(value, list):
        return {k: v for i, part in enumerate(value) for k, v in _flat(part, f"{prefix}/{i}").items()}
    if hasattr(value, "columns"):
        return _flat(dict(value.columns()), prefix)
    return {prefix: value.tobytes() if hasattr(value, "tobytes") else repr(value)}
