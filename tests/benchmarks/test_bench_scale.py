"""What several processes learned is set beside what one learned of the same cell, and beside nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.learning import FIRST_SEED, table_identity
from benchmarks.scale_learning import SPREAD, SpreadTask, differences, tasks
from benchmarks.settings import OURS

from rlstudio.experiment.config.experiment import load_experiment


def line_of(task: SpreadTask, mean: float) -> dict[str, Any]:
    cell, side, seed, identity = task.key
    return {"cell": cell, "side": side, "seed": seed, "identity": identity, "returns": [mean]}


def alone(task: SpreadTask, mean: float) -> dict[str, Any]:
    return {**line_of(task, mean), "identity": table_identity(load_experiment(task.cell.config))}


def test_every_way_to_spread_is_an_experiment_that_goes() -> None:
    wanted = tasks(1)
    assert len({task.key for task in wanted}) == len(wanted) == 3 * len(SPREAD)
    for task in wanted:
        load_experiment(task.cell.config, task.overrides)
        assert task.job()["first_seed"] == FIRST_SEED


def test_seeds_are_compared_with_those_of_one_process() -> None:
    mine = [task for task in tasks(3) if task.cell.key == "ppo_cartpole"]
    learners = [task for task in mine if task.spread == "2 learners"]
    stored = [line_of(task, 300.0) for task in learners]
    before = [alone(task, 500.0) for task in learners]
    other = [{**line, "identity": "of another config", "returns": [100.0]} for line in before]
    (found,) = differences(3, [*stored, *other], [*before, *other])
    assert (found.cell, found.before, found.after) == ("ppo_cartpole, 2 learners", 500.0, 300.0)
    assert found.is_regression
    assert found.seeds == (3, 3)
    assert list(differences(2, stored[2:], before)) == [], "a seed that was not asked for"
    assert before[0]["side"] == OURS
