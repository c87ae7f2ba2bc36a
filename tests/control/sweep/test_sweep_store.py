"""Sweeps in the store: rows that come back as they were written, pauses of runs, and the step from version 1."""

from __future__ import annotations

from sqlalchemy import text

from rlstudio.control.store import migrations, sweep_tables
from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, Trial, TrialState
from rlstudio.core.run_state import Reason
from support.control_world import S, in_state, owner
from support.sweep_world import FakeWorker, drive, new_driver, search_of


def test_trials_come_back_as_they_were_written(store: Store) -> None:
    sweeps = Sweeps(store.database)
    sweep = sweeps.create("mine", "{}", owner(), deterministic=True)
    trial = Trial(
        0, {"train.lr": 1e-3, "policy.network.hidden_sizes": [8, 8]}, 9, results={3: {0: 1.5, 7: -2.0}}, score=-2.0
    )
    child = Trial(1, {"train.lr": 0.1}, 27, TrialState.FAILED, bracket=2, parent=0, message="ü\x00")
    sweeps.write(sweep, [trial, child])
    assert sweeps.trials("mine") == [trial, Trial(**{**vars(child), "message": "ü\ufffd"})]
    sweeps.write(sweep, [Trial(0, trial.params, 27, TrialState.PRUNED)])
    assert [(found.number, found.state) for found in sweeps.trials("mine")] == [(0, "PRUNED"), (1, "FAILED")]
    sweeps.end(sweep, SweepState.STOPPED)
    again = sweeps.claim("mine", owner(2))
    assert (again.state, again.token, again.deterministic, again.process) == ("RUNNING", 2, True, owner(2))
    assert [found.name for found in sweeps.all()] == ["mine"]


def test_a_pause_lasts_through_retries_and_ends_with_a_resume(store: Store) -> None:
    run = in_state(store, S.RUNNING, pause_at=5, max_retries=1)
    store.move(run.id, run.token, S.INTERRUPTED, Reason.ORPHANED)
    assert store.resume(run.id, Reason.RETRY).pause_at == 5
    run = store.claim(run.id, owner())
    store.move(run.id, run.token, S.RUNNING)
    paused = store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED)
    assert not paused.may_retry
    assert store.retryable() == []
    assert store.resume(run.id, changes={"pause_at": 9}).pause_at == 9
    run = store.claim(run.id, owner())
    store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED)
    assert store.resume(run.id).pause_at == 0  # by hand: to its end


def test_the_pulse_changes_with_every_move_of_a_run(store: Store) -> None:
    sweeps = Sweeps(store.database)
    seen = [sweeps.pulse("toy")]
    run = in_state(store, S.QUEUED, sweep="toy", trial=0)
    seen.append(sweeps.pulse("toy"))
    run = store.claim(run.id, owner())
    seen.append(sweeps.pulse("toy"))
    store.move(run.id, run.token, S.RUNNING)
    seen.append(sweeps.pulse("toy"))
    assert len(set(seen)) == 4
    in_state(store, S.QUEUED, sweep="other")
    assert sweeps.pulse("toy") == seen[-1]


def test_a_store_of_version_1_takes_sweeps_after_the_steps(url: str) -> None:
    """On PostgreSQL too, of which there is no file to keep."""
    database = Database(url)
    with database.write() as connection:
        newer = [("worker", "pid_namespace")]
        columns = ("pause_at", "imports", "import_path", "pid_namespace", "tags", "note", "train_return")
        newer += [("run", column) for column in columns]
        added = [f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in newer]
        for statement in ("DROP TABLE trial", "DROP TABLE sweep", *added):
            connection.execute(text(statement))
        sweep_tables.from_version_1(connection)
        for step in (2, 3):
            migrations.STEPS[step](connection)
    search = search_of(trials=2)
    trials = drive(new_driver(database, search), FakeWorker(database, search))
    assert sorted(trial.state for trial in trials) == ["COMPLETED", "PRUNED"]
    database.close()
