"""Do runs that are spread over processes learn as well as those of one? `python -m benchmarks.scale --learning`.

Cells of the learning table are trained with two learners, and with two asynchronous workers, for as many steps as in
the table, and judged alike: the difference to the stored seeds, each of which one process trained, with its interval.
Every finished seed is one line of `results/scale_learning.jsonl`; what is there already is not trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks import regression
from benchmarks.cells import CELLS, Cell
from benchmarks.learning import FIRST_SEED, STORE, digest, line_key, missing, read_store, stated, table_identity, train
from benchmarks.records import RESULTS
from benchmarks.settings import OURS
from benchmarks.venvs import ours
from rlstudio.experiment.config.experiment import load_experiment

OWN_STORE = RESULTS / "scale_learning.jsonl"
SPREAD = {
    "2 learners": ("runtime.learners=2",),
    "2 workers, async": ("rollout.workers=2", "rollout.backend=process", "rollout.mode=async"),
}
TWO_ENVS = ("env.num_envs=2",)
"""A single environment cannot be divided. The steps, and the updates for each, stay what they are."""
MORE: dict[str, tuple[str, ...]] = {"ppo_cartpole": (), "dqn_cartpole": TWO_ENVS, "sac_pendulum": TWO_ENVS}
EPISODES = 50


@dataclass(frozen=True)
class SpreadTask:
    """One seed of a cell, trained by several processes."""

    cell: Cell
    spread: str
    seed: int
    episodes: int = EPISODES

    @property
    def overrides(self) -> tuple[str, ...]:
        return (*MORE[self.cell.key], *SPREAD[self.spread], "eval.every_epochs=0", "eval.final_episodes=1")

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Learners are no part of what a config states, so the way of spreading is named beside it."""
        stated_here = stated(load_experiment(self.cell.config, self.overrides))
        return (self.cell.key, OURS, self.seed, digest([stated_here, self.spread]))

    def job(self) -> dict[str, Any]:
        told = {"seed": self.seed, "threads": 1, "episodes": self.episodes, "first_seed": FIRST_SEED}
        return {**told, "config": self.cell.config, "overrides": list(self.overrides)}


def tasks(seeds: int) -> list[SpreadTask]:
    """Seed by seed, so that an early stop leaves a balanced table."""
    return [SpreadTask(cell, spread, seed) for seed in range(seeds) for cell in _cells() for spread in SPREAD]


def _cells() -> list[Cell]:
    return [cell for cell in CELLS if cell.key in MORE]


def differences(seeds: int, stored: regression.Lines, alone: regression.Lines) -> Iterator[regression.Difference]:
    """The seeds of each way to spread, beside those that one process trained with the cell's config."""
    for spread, cell in product(SPREAD, _cells()):
        own = {task.key for task in tasks(seeds) if (task.spread, task.cell) == (spread, cell)}
        identity = table_identity(load_experiment(cell.config))
        before = [x for x in alone if (x["cell"], x["side"], x["identity"]) == (cell.key, OURS, identity)]
        after = [x for x in stored if line_key(x) in own]
        if before and after:
            yield regression.difference(f"{cell.key}, {spread}", regression.means(before), regression.means(after))


def report(seeds: int) -> None:
    failed = train(missing(tasks(seeds), read_store(OWN_STORE)), ours(), 1, OWN_STORE)
    found = list(differences(seeds, read_store(OWN_STORE), read_store(STORE)))
    print(regression.report(found))
    if failed or any(each.is_regression for each in found):
        raise SystemExit(1)
