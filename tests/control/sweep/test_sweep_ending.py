"""Sweeps that are stopped and removed, the runs they still need, and runs that a user paused meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.remove import Policy, prunable
from rlstudio.control.runs.start import requeue
from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.control.sweep import ending
from rlstudio.control.sweep.background import log_path
from rlstudio.control.sweep.driver import Driver
from rlstudio.control.sweep.ending import remove_sweep, runs_to_remove, stop_sweep
from rlstudio.control.sweep.needed import needed_runs, standing_at_rungs
from rlstudio.control.sweep.search import SweepSearch
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, SweepStopped, Trial, TrialState
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Conflict, LeaseLost, UnknownName
from rlstudio.core.run_state import Reason, RunState
from support.control_world import HERE, S, clear, in_state, owner, request
from support.sweep_world import FakeWorker, Killed, drive, killed_at, new_driver, search_of

SMALL: dict[str, Any] = {"trials": 3, "pruner": {"kind": "asha", "rungs": [3], "eta": 3}, "deterministic": True}


@pytest.fixture(scope="module")
def search() -> SweepSearch:
    return search_of(**SMALL)


@pytest.fixture(scope="module")
def expected(sqlite_database: Database, search: SweepSearch) -> list[Any]:
    """What the sweep decides if nobody stops it."""
    clear(sqlite_database)
    return decisions(drive(new_driver(sqlite_database, search, 3), FakeWorker(sqlite_database, search)))


@pytest.fixture
def workspace(store: Store, tmp_path: Path) -> Workspace:
    """With the store of the module, emptied."""
    url = store.database.engine.url.render_as_string(hide_password=False)
    made = Workspace(tmp_path / "runs", url)
    yield made
    made.store.database.close()


@pytest.fixture
def place(sqlite_database: Database, tmp_path: Path) -> Workspace:
    """Where the database makes no difference: one is enough."""
    clear(sqlite_database)
    made = Workspace(tmp_path / "runs", sqlite_database.engine.url.render_as_string())
    yield made
    made.store.database.close()


def decisions(trials: list[Trial]) -> list[Any]:
    return [(trial.number, dict(trial.params), trial.state, trial.results) for trial in trials]


def begun(workspace: Workspace, search: SweepSearch) -> Driver:
    """One run has come to its rung, one trains, one is queued."""
    driver = new_driver(workspace.store.database, search, 3)
    driver.step()
    FakeWorker(workspace.store.database, search).work(1)
    run = workspace.store.runs(sweep="toy", states={S.QUEUED})[-1]
    claimed = workspace.store.claim(run.id, owner())
    workspace.store.move(run.id, claimed.token, S.RUNNING)
    return driver


def finish(workspace: Workspace, search: SweepSearch) -> list[Any]:
    """End what is being paused, and resume the sweep to its end."""
    for run in workspace.store.runs(sweep="toy", states={S.STOPPING}):
        workspace.store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL)
    database = workspace.store.database
    return decisions(drive(new_driver(database, search, 3, begin=False), FakeWorker(database, search)))


def by_state(workspace: Workspace) -> list[tuple[RunState, Reason, bool]]:
    return sorted((run.state, run.reason, run.is_paused) for run in workspace.store.runs(sweep="toy"))


def test_a_stopped_sweep_pauses_its_runs_and_decides_the_same_when_it_is_resumed(
    expected: list[Any], search: SweepSearch, workspace: Workspace
) -> None:
    sweeps = Sweeps(workspace.store.database)
    driver = begun(workspace, search)
    assert len(stop_sweep(workspace, "toy")) == 2
    assert sweeps.get("toy").current == SweepState.STOPPED
    waits, paused = (S.INTERRUPTED, Reason.PAUSED, False), (S.INTERRUPTED, Reason.PAUSED, True)
    assert by_state(workspace) == [waits, paused, (S.STOPPING, Reason.PAUSED, False)]
    with pytest.raises(SweepStopped, match="sweep toy: was stopped; go on with: rlctl sweep --resume toy"):
        driver.step()
    with pytest.raises(Conflict, match=r"run \S+ is still stopping; try again once it has: rlctl show \S+"):
        sweeps.claim("toy", owner())
    stop_sweep(workspace, "toy")  # again: nothing changes
    (stopping,) = workspace.store.runs(sweep="toy", states={S.STOPPING})
    workspace.store.move(stopping.id, stopping.token, S.INTERRUPTED, Reason.SIGNAL)
    assert stop_sweep(workspace, "toy") == []
    assert by_state(workspace) == [waits, paused, paused]
    assert finish(workspace, search) == expected
    with pytest.raises(Conflict, match="is COMPLETED; there is nothing to stop"):
        stop_sweep(workspace, "toy")


def test_a_driver_that_was_stopped_starts_nothing_more(search: SweepSearch, workspace: Workspace) -> None:
    """Also where it had decided to before."""
    driver = begun(workspace, search)
    stop_sweep(workspace, "toy")
    before = workspace.store.runs()
    trial = Trial(2, {"train.lr": 0.01, "train.gamma": 0.9}, 3)
    with pytest.raises(SweepStopped):
        driver._actions.begin(search, driver.sweep, trial, 7)
    waiting = next(run for run in before if run.reason == Reason.PAUSED and not run.is_paused)
    with pytest.raises(SweepStopped):
        workspace.store.resume(waiting.id, fence=Sweeps(workspace.store.database).fence(driver.sweep))
    assert workspace.store.runs() == before


def test_killed_after_any_write_a_stop_can_be_repeated(
    expected: list[Any], search: SweepSearch, place: Workspace, monkeypatch: Any
) -> None:
    """A kill before a transaction is written leaves what a kill after the one before it leaves."""
    for point in (1, 2, 3):
        clear(place.store.database)
        begun(place, search)
        with killed_at(place.store.database, point, True, monkeypatch), pytest.raises(Killed):
            stop_sweep(place, "toy")
        if point == 2:
            stop_sweep(place, "toy")
            assert not place.store.runs(sweep="toy", states={S.QUEUED, S.RUNNING})
        for run in place.store.runs(sweep="toy", states={S.RUNNING}):
            place.store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED)
        assert finish(place, search) == expected, f"killed at transaction {point}"


def test_a_run_that_its_user_paused_waits_for_the_user_and_fails_no_trial(
    expected: list[Any], search: SweepSearch, workspace: Workspace
) -> None:
    store = workspace.store
    driver = begun(workspace, search)
    (queued,) = store.runs(sweep="toy", states={S.QUEUED})
    (running,) = store.runs(sweep="toy", states={S.RUNNING})
    store.move(running.id, running.token, S.INTERRUPTED, Reason.PAUSED, "", {"epoch": 0})
    store.pause(queued.id)
    worker = FakeWorker(store.database, search)
    for _ in range(6):
        seen = driver.step()
        worker.work(3)
    assert not seen.is_over
    assert store.get(queued.id).is_paused
    assert all(trial.is_live for trial in seen.trials)
    store.release(queued.id)
    assert decisions(drive(driver, worker)) == expected


def test_a_process_that_was_started_to_drive_it_has_it_once(store: Store) -> None:
    sweeps = Sweeps(store.database)
    sweeps.end(sweeps.create("toy", "{}", owner()), SweepState.STOPPED)
    given = sweeps.assign("toy", owner(2))
    assert sweeps.assign("toy", owner(2)) == given  # the process was quicker: its token still counts
    sweeps.end(given, SweepState.COMPLETED)
    assert sweeps.assign("toy", owner(2)).state == SweepState.COMPLETED  # quicker still: it is over already
    sweeps.end(given, SweepState.RUNNING)
    with pytest.raises(Conflict, match="drives it"):
        sweeps.assign("toy", owner(3))
    assert sweeps.claim("toy", owner(2)).token == given.token + 1
    sweeps.claim("toy", owner(4, HERE), take_over=True)  # a process of this host that is gone
    assert (sweeps.get("toy").state, sweeps.get("toy").current) == ("RUNNING", "INTERRUPTED")
    assert sweeps.assign("toy", owner(3)).is_driven


# -- removing ---------------------------------------------------------------------------------------------------------


def test_a_sweep_is_removed_with_its_runs_and_nothing_else(search: SweepSearch, workspace: Workspace) -> None:
    begun(workspace, search)
    other = in_state(workspace.store, S.COMPLETED)
    with pytest.raises(
        Conflict, match=r"process \d+ on another-host drives it; stop it first with: rlctl sweep stop toy"
    ):
        list(remove_sweep(workspace, "toy"))
    stop_sweep(workspace, "toy")
    with pytest.raises(Conflict, match=r"run \S+ is STOPPING; end it first with: rlctl sweep stop toy"):
        runs_to_remove(workspace, "toy")
    (stopping,) = workspace.store.runs(sweep="toy", states={S.STOPPING})
    workspace.store.move(stopping.id, stopping.token, S.INTERRUPTED, Reason.SIGNAL)
    folder_of(workspace, stopping).close()
    child = workspace.store.create(request(parent_id=stopping.id))
    with pytest.raises(Conflict, match=f"{child.id} was forked from it"):
        list(remove_sweep(workspace, "toy"))
    workspace.store.remove(child.id)
    log_path(workspace, "toy").parent.mkdir(parents=True, exist_ok=True)
    log_path(workspace, "toy").touch()
    assert len(list(remove_sweep(workspace, "toy"))) == 3
    assert [run.id for run in workspace.store.runs()] == [other.id]
    assert not workspace.folder(stopping.id).exists
    assert not log_path(workspace, "toy").exists()
    with pytest.raises(UnknownName, match="'toy'"):
        Sweeps(workspace.store.database).get("toy")
    assert Sweeps(workspace.store.database).trials("toy") == []


def test_killed_after_any_write_a_removal_can_be_repeated(
    search: SweepSearch, place: Workspace, monkeypatch: Any
) -> None:
    def killed_too(*_: object) -> None:
        raise Killed  # a process that is killed records nothing afterwards

    monkeypatch.setattr(ending, "this_process", lambda: owner(9, HERE))  # gone, when somebody looks
    monkeypatch.setattr(Sweeps, "end", killed_too)
    point, killed = 0, True
    while killed:
        point += 1
        clear(place.store.database)
        new_driver(place.store.database, search, 3).step()
        stop_sweep(place, "toy")
        try:
            with killed_at(place.store.database, point, True, monkeypatch):
                list(remove_sweep(place, "toy"))
            killed = False
        except Killed:
            if Sweeps(place.store.database).all():
                list(remove_sweep(place, "toy"))
        assert place.store.runs() == []
        assert Sweeps(place.store.database).all() == []
    assert point > 4  # taken, three runs, the sweep itself


# -- what a sweep needs -----------------------------------------------------------------------------------------------


def test_what_a_sweep_that_can_go_on_needs(store: Store, tmp_path: Path) -> None:
    """Trial 3 is to be forked from trial 1, once for each seed; trial 0 is the best; 2 was given up."""
    sweeps = Sweeps(store.database)
    sweep = sweeps.create("toy", "{}", owner())
    done, pruned = TrialState.COMPLETED, TrialState.PRUNED
    trials = [
        Trial(0, {}, 9, done, {9: {0: 5.0}}, 5.0),
        Trial(1, {}, 9, done, {9: {0: 3.0}}, 3.0),
        Trial(2, {}, 3, pruned),
        Trial(3, {}, 9, parent=1),
        Trial(4, {}, 9),
    ]
    sweeps.write(sweep, trials)
    runs = {}
    for number, seed in ((0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (4, 0)):
        run = in_state(store, S.RUNNING, sweep="toy", trial=number, seed=seed)
        runs[number, seed] = store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED)
    alien = in_state(store, S.INTERRUPTED, sweep="removed", trial=0)
    needed = needed_runs(store, [*runs.values(), alien])
    whys = {pair: needed[run.id].why for pair, run in runs.items() if run.id in needed}
    assert whys == {
        (0, 0): "it is the best of sweep toy so far",
        (1, 1): "trial 3 of sweep toy is to be forked from it",
        (3, 0): "trial 3 of sweep toy goes on with it",
        (4, 0): "trial 4 of sweep toy goes on with it",
    }
    assert needed[runs[1, 1].id].lost == "trial 3 fails without it"
    assert needed[runs[3, 0].id].lost == "trial 3 begins again at the checkpoint of trial 1"
    assert needed[runs[4, 0].id].lost == "trial 4 begins again at its first epoch"
    assert needed_runs(store, [runs[4, 0], runs[2, 0]]).keys() == {runs[4, 0].id}
    workspace = Workspace(tmp_path / "runs", store.database.engine.url.render_as_string(hide_password=False))
    held = store.create(request())
    store.pause(held.id)
    every = Policy(states=frozenset({S.INTERRUPTED}))

    def collected() -> set[str]:
        return {run.id for run in prunable(workspace, every, needed=lambda among: needed_runs(store, among))}

    assert collected() == {runs[1, 0].id, runs[2, 0].id, alien.id}
    sweeps.end(sweep, SweepState.COMPLETED)
    assert needed_runs(store, runs.values()) == {}
    assert collected() == {run.id for run in [*runs.values(), alien]}  # never one that its user paused
    workspace.records.database.close()


def test_only_a_run_whose_trial_is_open_waits_at_a_rung(store: Store) -> None:
    """A second seed of a trial that failed was said to wait for its sweep, for ever."""
    sweeps = Sweeps(store.database)
    trials = [Trial(0, {}, 1), Trial(1, {}, 1, TrialState.PRUNED), Trial(2, {}, 1, TrialState.FAILED)]
    sweeps.write(sweeps.create("toy", "{}", owner()), trials)
    runs = []
    for name, number in (("toy", 0), ("toy", 1), ("toy", 2), ("removed", 0)):
        run = in_state(store, S.RUNNING, sweep=name, trial=number)
        paused = store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED)
        runs.append(replace(paused, pause_at=1, epoch=1))
    standing = standing_at_rungs(store, runs)
    assert [standing[run.id] for run in runs] == ["waits", "pruned", "pruned", "pruned"]


def test_a_paused_run_at_a_rung_waits_for_its_sweep_though_its_command_is_changed(store: Store, tmp_path: Path) -> None:
    """With `--notify` it went into the queue, past the decision of its sweep."""
    workspace = Workspace(tmp_path / "runs", store.database.engine.url.render_as_string(hide_password=False))
    run = in_state(store, S.RUNNING, sweep="toy", trial=0, pause_at=1)
    store.pause(run.id)
    paused = store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED, facts={"epoch": 1})
    assert (paused.is_paused, paused.is_at_rung) == (True, True)
    requeued = requeue(workspace, paused, notify=("tee", "x"))
    assert (requeued.state, requeued.is_paused, requeued.is_at_rung) == (S.INTERRUPTED, False, True)
    assert store.consent(run.id).notify == ("tee", "x")
    workspace.records.database.close()


def test_a_driver_of_a_sweep_that_was_removed_says_so(store: Store) -> None:
    sweeps = Sweeps(store.database)
    sweep = sweeps.create("toy", "{}", owner())
    sweeps.remove(sweep)
    with pytest.raises(LeaseLost, match="was removed; deciding nothing more"):
        sweeps.write(sweep, [Trial(0, {}, 1)])
