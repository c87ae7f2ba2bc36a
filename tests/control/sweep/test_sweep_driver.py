"""A sweep driven to its end with runs that end at once: what is chosen, who goes on, and what a kill may cost."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, Trial, TrialState
from rlstudio.core.errors import Conflict, LeaseLost
from rlstudio.core.run_state import RunState
from support.control_world import clear
from support.repetition import some_points
from support.sweep_world import SWEEP, FakeWorker, Killed, drive, killed_at, new_driver, search_of, worth

POINTS = 30


def swept(database: Database, at_once: int = 2, order: Any = None, amount: int = 1, **changes: Any) -> list[Trial]:
    search = search_of(**changes)
    worker = FakeWorker(database, search, order or (lambda count: 0))
    trials = drive(new_driver(database, search, at_once), worker, amount)
    assert set(worker.completed.values()) <= {1}
    assert Sweeps(database).get(search.cfg.name).state == SweepState.COMPLETED
    return trials


@pytest.fixture
def place(sqlite_database: Database) -> Store:
    """Where the database makes no difference: one is enough."""
    clear(sqlite_database)
    return Store(sqlite_database)


def states(trials: list[Trial]) -> Counter[TrialState]:
    return Counter(trial.state for trial in trials)


def test_every_trial_is_a_run_for_each_seed(store: Store) -> None:
    trials = swept(store.database, pruner={"kind": "none"}, seeds=[3, 4])
    assert [trial.number for trial in trials] == list(range(9))
    assert states(trials) == {TrialState.COMPLETED: 9}
    runs = store.runs(sweep="toy")
    assert sorted((run.trial, run.seed) for run in runs) == [(number, seed) for number in range(9) for seed in (3, 4)]
    assert {run.state for run in runs} == {RunState.COMPLETED}
    for trial in trials:
        values = {seed: worth(trial.params, seed, 27) for seed in (3, 4)}
        assert trial.results == {27: values}
        assert min(values.values()) <= trial.score <= sum(values.values()) / 2


def test_asha_gives_up_most_and_keeps_the_best(place: Store) -> None:
    trials = swept(place.database, trials=18)
    best = max(trials, key=lambda trial: worth(trial.params, 0, 27))
    assert best.state == TrialState.COMPLETED
    assert states(trials)[TrialState.PRUNED] > 9
    epochs = sum(run.epoch for run in place.runs(sweep="toy"))
    assert epochs < 0.5 * 18 * 27
    for run in place.runs(sweep="toy"):
        trial = trials[run.trial]
        paused = trial.state == TrialState.PRUNED
        assert (run.state, run.reason) == ((RunState.INTERRUPTED, "paused") if paused else (RunState.COMPLETED, ""))
        assert run.epoch == max(trial.results)


@pytest.mark.parametrize("pruner", [{"kind": "median", "rungs": [3, 9]}, {"kind": "hyperband", "min_epochs": 3}])
@pytest.mark.parametrize("deterministic", [False, True])
def test_other_pruners(place: Store, pruner: dict[str, Any], deterministic: bool) -> None:
    trials = swept(place.database, trials=16, pruner=pruner, deterministic=deterministic)
    found = states(trials)
    assert len(trials) == found[TrialState.PRUNED] + found[TrialState.COMPLETED] == 16
    assert found[TrialState.PRUNED] >= 4
    assert found[TrialState.COMPLETED] >= 2
    if pruner["kind"] == "hyperband":
        assert len({trial.bracket for trial in trials}) == 3


@pytest.mark.parametrize("trials", [1, 2, 3])
@pytest.mark.parametrize("deterministic", [False, True])
def test_fewer_trials_than_a_rung_asks_for_still_have_a_winner(place: Store, trials: int, deterministic: bool) -> None:
    found = swept(place.database, trials=trials, deterministic=deterministic)
    assert states(found)[TrialState.COMPLETED] == 1


def test_a_failing_trial_is_not_a_failing_sweep(place: Store) -> None:
    search = search_of(seeds=[0, 1])
    worker = FakeWorker(place.database, search, fails={0, 4})
    trials = drive(new_driver(place.database, search, 3), worker)
    assert [trial.number for trial in trials if trial.state == TrialState.FAILED] == [0, 4]
    assert "diverged no attempt went well" in trials[0].message
    assert states(trials)[TrialState.COMPLETED] >= 1
    assert not [run for run in place.runs(sweep="toy") if run.is_owned or run.state == RunState.QUEUED]


def test_settings_that_do_not_go_together_fail_one_trial(place: Store) -> None:
    space = {"train.batch_size": {"choices": [16, 32]}, "train.rollout_steps": {"choices": [8, 16]}}
    search = search_of(space={**SWEEP["space"], **space}, sampler={"kind": "random", "seed": 2}, trials=12)
    trials = drive(new_driver(place.database, search, 3), FakeWorker(place.database, search))
    failed = [trial for trial in trials if trial.state == TrialState.FAILED]
    assert failed
    for trial in trials:
        bad = trial.params["train.batch_size"] > 2 * trial.params["train.rollout_steps"]
        assert (trial.state == TrialState.FAILED) == bad
        assert not bad or "one rollout has only 16" in trial.message
    assert {run.trial for run in place.runs(sweep="toy")}.isdisjoint(trial.number for trial in failed)


def decisions(trials: list[Trial]) -> list[Any]:
    return [
        (trial.number, dict(trial.params), trial.state, trial.results, trial.message, trial.parent) for trial in trials
    ]


DETERMINISTIC = [
    pytest.param({"sampler": {"kind": "random", "seed": 1}, "seeds": [0, 1]}, id="asha-random"),
    pytest.param(
        {"sampler": {"kind": "tpe", "startup_trials": 3, "batch": 3}, "pruner": {"kind": "median", "rungs": [3]}},
        id="median-tpe",
    ),
    pytest.param({"sampler": {"kind": "pbt", "interval": 9}, "pruner": {"kind": "none"}, "trials": 8}, id="pbt"),
]


@pytest.mark.parametrize("changes", DETERMINISTIC)
def test_deterministic_sweeps_decide_the_same_at_any_concurrency_and_order(place: Store, changes: Any) -> None:
    found = []
    for at_once, seed in ((1, 0), (2, 1), (50, 3)):
        clear(place.database)
        rng = random.Random(seed)
        args = (place.database, at_once, rng.randrange, 1 + seed)
        found.append(decisions(swept(*args, deterministic=True, **changes)))
    assert found[1:] == found[:-1]


def assert_nothing_twice(store: Store) -> None:
    runs = store.runs(sweep="toy")
    pairs = [(run.trial, run.seed) for run in runs]
    assert len(pairs) == len(set(pairs))
    for run in runs:
        assert Counter(event.state for event in store.events(run.id))["COMPLETED"] <= 1


def dying(database: Database, search: Any, worker: FakeWorker, patch: Any, changes: int = 1) -> tuple[list[Trial], int]:
    """The sweep by drivers that are each killed after so many changes: with one, at every state write there is."""
    for kills in range(1000):
        with killed_at(database, 1 + changes, True, patch):  # the first is to take the sweep over
            try:
                return drive(new_driver(database, search, begin=kills == 0), worker), kills
            except Killed:
                if Sweeps(database).get("toy").state == SweepState.COMPLETED:
                    return Sweeps(database).trials("toy"), kills + 1
    raise AssertionError("it never came to an end")


EVERY_WRITE = [
    # The quick suite kills one sweep after every write, and those of the other kinds after every fifth.
    pytest.param(*case.values, apart, id=f"{case.id}-{apart}", marks=[pytest.mark.slow] * (apart == 1 and number > 0))
    for number, case in enumerate(DETERMINISTIC)
    for apart in ((1, 5) if number else (1,))
]


@pytest.mark.parametrize(("changes", "apart"), EVERY_WRITE)
def test_killed_after_every_write_the_decisions_stay(place: Store, monkeypatch: Any, changes: Any, apart: int) -> None:
    """R23. A kill before a transaction is written leaves what a kill after the one before it leaves."""
    search = search_of(deterministic=True, **changes)
    worker = FakeWorker(Database(place.database.engine.url.render_as_string()), search)
    whole = decisions(drive(new_driver(place.database, search), worker))
    clear(place.database)
    trials, kills = dying(place.database, search, worker, monkeypatch, apart)
    worker.store.database.close()
    print(f"{kills} kills of one sweep")
    assert decisions(trials) == whole
    assert kills >= POINTS // apart
    assert_nothing_twice(place)


@pytest.mark.parametrize("at_most", [9, pytest.param(1000, marks=pytest.mark.slow)])
def test_killed_once_at_any_write_the_decisions_stay(place: Store, monkeypatch: Any, at_most: int) -> None:
    search = search_of(deterministic=True, trials=4, pruner={"kind": "asha", "rungs": [3]})
    worker = FakeWorker(Database(place.database.engine.url.render_as_string()), search)
    with killed_at(place.database, -1, False, monkeypatch) as count:
        whole = decisions(drive(new_driver(place.database, search, 4), worker, amount=4))
    for point in (1 + index for index in some_points(count[0], at_most)):
        clear(place.database)
        with killed_at(place.database, point, bool(point % 2), monkeypatch), pytest.raises(Killed):
            drive(new_driver(place.database, search, 4), worker, amount=4)
        started = bool(Sweeps(place.database).all())
        trials = drive(new_driver(place.database, search, 4, begin=not started), worker, amount=4)
        assert decisions(trials) == whole, f"killed at transaction {point} of {count[0]}"
        assert_nothing_twice(place)
    worker.store.database.close()
    assert count[0] >= 12


def test_killed_after_every_write_an_asynchronous_sweep_loses_nothing(place: Store, monkeypatch: Any) -> None:
    search = search_of(seeds=[0, 1])
    worker = FakeWorker(Database(place.database.engine.url.render_as_string()), search)
    trials, kills = dying(place.database, search, worker, monkeypatch)
    worker.store.database.close()
    assert kills >= POINTS
    assert [trial.number for trial in trials] == list(range(9))
    assert len(place.runs(sweep="toy")) == 18
    assert_nothing_twice(place)


def test_one_driver_at_a_time(store: Store) -> None:
    from rlstudio.core.host.process import this_process

    search = search_of()
    first = new_driver(store.database, search)
    sweeps = Sweeps(store.database)
    with pytest.raises(Conflict, match="is there already; go on with: rlctl sweep --resume toy"):
        new_driver(store.database, search)
    with pytest.raises(Conflict, match=r"process \d+ on another-host drives it; .* --take-over"):
        sweeps.claim("toy", this_process())
    sweeps.claim("toy", this_process(), take_over=True)
    with pytest.raises(LeaseLost, match="taken over by another process"):
        first.step()
    assert sweeps.trials("toy") == []
