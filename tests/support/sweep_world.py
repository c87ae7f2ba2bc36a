"""Sweeps for the tests: runs that end at once with a known score, and a driver that is killed at any transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlstudio.control.store.database import Database
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.driver import Driver, pause_at
from rlstudio.control.sweep.search import SweepSearch, load_search
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, Trial
from rlstudio.core.run_state import Reason, RunState
from support.control_world import owner, request
from support.experiments import tiny_data

EXPERIMENT = tiny_data(
    train={"epochs": 27, "rollout_steps": 16, "batch_size": 16, "lr": 1e-3},
    eval={"every_epochs": 1, "episodes": 2},
)
SWEEP: dict[str, Any] = {
    "name": "toy",
    "experiment": EXPERIMENT,
    "trials": 9,
    "sampler": {"kind": "random", "seed": 1},
    "pruner": {"kind": "asha", "rungs": [3, 9], "eta": 3},
    "space": {
        "train.lr": {"low": 1e-5, "high": 1e-1, "log": True},
        "train.gamma": {"choices": [0.9, 0.99]},
        "train.passes": {"low": 1, "high": 8},
    },
}


def search_of(**changes: Any) -> SweepSearch:
    return load_search({**SWEEP, **changes})


def worth(params: Any, seed: int, epoch: int) -> float:
    """The best is lr 1e-3 with gamma 0.99; a number of its own for each trial, seed and epoch."""
    distance = abs(np.log10(params["train.lr"]) + 3) + (params.get("train.gamma") == 0.9)
    noise = np.random.default_rng([int(1e6 * distance), seed, epoch]).normal(0, 0.05)
    return float(epoch * (10 - distance) + noise)


class Killed(BaseException):
    """kill -9, as far as a test can have it: no handler that ends things properly catches it."""


class FakeHands:
    """Runs in the store, without any training."""

    def __init__(self, store: Store, search: SweepSearch) -> None:
        self.store, self.search = store, search

    def begin(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int) -> None:
        hash_ = repr(sorted(trial.params.items()))
        self._create(search, sweep, trial, seed, config_hash=hash_)

    def fork(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int, parent: RunRow) -> None:
        self._create(search, sweep, trial, seed, parent_id=parent.id, parent_step=parent.env_steps)

    def _create(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int, **changes: Any) -> None:
        asked = request(sweep=sweep.name, trial=trial.number, seed=seed, pause_at=pause_at(search, trial), **changes)
        fence = Sweeps(self.store.database).fence(sweep)
        self.store.create(asked, key=f"sweep/{sweep.name}/{trial.number}/{seed}", fence=fence)

    def is_left(self, run: RunRow) -> bool:
        return False

    def measure(self, run: RunRow, metric: str, epoch: int) -> float | None:
        return run.eval_return if run.epoch == epoch else None

    def wake(self) -> None:
        pass


class FakeWorker:
    """Takes what is queued, and ends each run where it is sent. `order` chooses among them: timing decides nothing."""

    def __init__(
        self,
        database: Database,
        search: SweepSearch,
        order: Callable[[int], int] = lambda count: 0,
        fails: Any = frozenset(),
    ) -> None:
        self.store, self.search = Store(database), search
        self.order, self.fails = order, fails
        self.most = 0
        self.completed: dict[str, int] = {}

    def work(self, amount: int = 1) -> None:
        name = self.search.cfg.name
        for _ in range(amount):
            queued = [run for run in reversed(self.store.runs(sweep=name)) if run.state == RunState.QUEUED]
            self.most = max(self.most, len(queued))
            if not queued:
                return
            self.end(queued[self.order(len(queued)) % len(queued)])

    def end(self, run: RunRow) -> None:
        params = next(
            trial.params for trial in Sweeps(self.store.database).trials(run.sweep) if trial.number == run.trial
        )
        run = self.store.claim(run.id, owner())
        self.store.move(run.id, run.token, RunState.RUNNING)
        if run.trial in self.fails:
            self.store.move(run.id, run.token, RunState.FAILED, Reason.DIVERGED, "no attempt went well")
            return
        epoch = run.pause_at or self.search.epochs
        assert epoch > run.epoch, "sent to where it is already"
        facts = {"epoch": epoch, "env_steps": 64 * epoch, "eval_return": worth(params, run.seed, epoch)}
        if run.pause_at:
            self.store.move(run.id, run.token, RunState.INTERRUPTED, Reason.PAUSED, "", facts)
        else:
            self.completed[run.id] = self.completed.get(run.id, 0) + 1
            self.store.move(run.id, run.token, RunState.COMPLETED, Reason.NONE, "", facts)


def new_driver(database: Database, search: SweepSearch, at_once: int = 2, *, begin: bool = True) -> Driver:
    store = Store(database)
    sweeps = Sweeps(database)
    if begin:
        args = (search.cfg.name, search.to_json(), owner())
        sweep = sweeps.create(*args, deterministic=search.cfg.deterministic)
    else:
        sweep = sweeps.claim(search.cfg.name, owner())
    return Driver(store, sweep, search, FakeHands(store, search), at_once)


def drive(driver: Driver, worker: FakeWorker, amount: int = 1, steps: int = 2000) -> list[Trial]:
    for _ in range(steps):
        seen = driver.step()
        active = [run for run in seen.runs if run.is_owned or run.state == RunState.QUEUED]
        assert len(active) <= driver.max_concurrent
        if seen.is_over:
            return seen.trials
        worker.work(amount)
    raise AssertionError("it never came to an end")


@contextmanager
def killed_at(database: Database, transaction: int, after: bool, monkeypatch: Any) -> Iterator[list[int]]:
    """The process goes at its n-th transaction: before it is written, or just after."""
    count = [0]
    whole = database.write

    @contextmanager
    def write() -> Iterator[Any]:
        count[0] += 1
        if count[0] == transaction and not after:
            raise Killed
        with whole() as connection:
            yield connection
        if count[0] == transaction:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(database, "write", write)
        yield count
