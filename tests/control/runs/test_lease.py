"""The lease of a run that the store knows: what it lets through, what it refuses, and whom it hears."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import runner
from rlstudio.control.runs import lease as lease_module
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.lease import StoreLease, recording_failure
from rlstudio.control.runs.start import enqueue, requeue, resume_session, serve, start_session
from rlstudio.control.store.reaper import TTL_SECONDS
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.control.workspace import Workspace
from rlstudio.core.contracts import Lease
from rlstudio.core.errors import Conflict, EnvFault, LeaseLost, StorageError, UserError
from rlstudio.core.host.process import PULSE, this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.run.signals import Interrupted
from support.control_world import HERE, S, assert_history, owner
from support.deadlines import PATIENCE
from support.experiments import tiny
from support.launcher import InProcessLauncher
from support.processes import in_child
from support.rlctl_process import wait_for

NEVER = 3600.0
"""Seconds between two heartbeats that no test waits for: such a heart only ever ends."""


def config(epochs: int = 4, checkpoint_every: int | None = 1) -> ExperimentConfig:
    train = {"epochs": epochs, "steps_per_epoch": 32, "rollout_steps": 8, "batch_size": 16, "lr_schedule": "constant"}
    return tiny(train=train, eval={"final_episodes": 1}, ckpt={"every_seconds": None, "every_epochs": checkpoint_every})


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "runs")
    yield workspace
    workspace.store.database.close()


@pytest.fixture(autouse=True)
def no_heartbeat_is_left() -> Iterator[None]:
    yield
    assert hearts() == []


def hearts() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("heartbeat of")]


@pytest.fixture
def long_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat comes by itself."""
    monkeypatch.setattr(StoreLease.__init__, "__kwdefaults__", {"beat_seconds": NEVER, "on_lost": lambda: None})


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def claimed(workspace: Workspace, epochs: int = 4) -> RunRow:
    """A queued run in the hands of this process, as in one that a worker started for it."""
    run = enqueue(workspace, config(epochs))
    token = workspace.store.claim(run.id, owner(1, HERE)).token
    return workspace.store.hand_over(run.id, token, this_process())


def leased(workspace: Workspace, **options: Any) -> tuple[RunRow, StoreLease]:
    run = claimed(workspace)
    return run, StoreLease(workspace.store, run, folder_of(workspace, run).path, **{"beat_seconds": NEVER, **options})


def take_away(store: Store, run_id: str) -> RunRow:
    """What a reaper does with the run of an owner it takes for dead."""
    run = store.get(run_id)
    reaped = store.reap(run_id, run.token, run.heartbeat, Reason.ORPHANED, "frozen")
    assert reaped is not None
    return reaped


def test_it_is_a_lease(workspace: Workspace) -> None:
    run, lease = leased(workspace)
    with lease_closed(lease):
        typed: Lease = lease
        assert (typed.token, lease.run_id) == (run.token, run.id)
        typed.check()


class lease_closed:
    def __init__(self, lease: StoreLease) -> None:
        self.lease = lease

    def __enter__(self) -> StoreLease:
        return self.lease

    def __exit__(self, *_: object) -> None:
        self.lease.release()


# -- fenced -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("long_beats")
def test_a_frozen_owner_that_continues_changes_nothing(workspace: Workspace) -> None:
    """Frozen between two updates, taken for dead, its run finished by another; then it goes on."""
    session = start_session(workspace, config(epochs=50))
    ticks = iter(session)
    while next(ticks).epoch < 2:
        pass
    run = take_away(workspace.store, session.folder.id)
    successor = resume_session(workspace, run)
    with successor:
        for tick in successor:
            if tick.epoch > 4:
                break
    before = everything(session.folder.path)
    known = (workspace.store.get(run.id), workspace.store.events(run.id), workspace.store.checkpoints(run.id))

    with pytest.raises(LeaseLost):
        for _ in ticks:
            pass
    session.close()
    assert everything(session.folder.path) == before
    assert (workspace.store.get(run.id), workspace.store.events(run.id), workspace.store.checkpoints(run.id)) == known
    assert_history(workspace.store, run.id)


@pytest.mark.usefixtures("long_beats")
def test_everything_is_refused_after_a_reap_alone(workspace: Workspace) -> None:
    """The store knows it before anybody else has touched the folder."""
    session = start_session(workspace, config(epochs=50))
    ticks = iter(session)
    while next(ticks).epoch < 2:
        pass
    lease = session.writer.lease
    assert isinstance(lease, StoreLease)
    take_away(workspace.store, session.folder.id)
    before = everything(session.folder.path)
    known = (workspace.store.get(session.folder.id), workspace.store.checkpoints(session.folder.id))

    refused = {
        "check": lease.check,
        "checkpoint": session._save,
        "metrics": lambda: flush(session.recorder),
        "state": lambda: session.writer.set_state(RunState.COMPLETED),
        "publish": lambda: lease.publish([]),
        "going on": lambda: [None for _ in ticks],
    }
    for what, attempt in refused.items():
        with pytest.raises(LeaseLost):
            attempt()
        assert everything(session.folder.path) == before, what
    session.close()
    assert everything(session.folder.path) == before
    assert (workspace.store.get(session.folder.id), workspace.store.checkpoints(session.folder.id)) == known


def flush(recorder: Recorder) -> None:
    recorder.write(10**6, {"train/loss": 1.0})
    recorder.flush()


def test_the_folder_fences_too(workspace: Workspace) -> None:
    """A store that was put back from an old copy would hand out a token again; the folder still knows better."""
    run, lease = leased(workspace)
    second = StoreLease(workspace.store, run, workspace.folder(run.id).path, beat_seconds=NEVER)
    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(LeaseLost):
        lease.move(S.RUNNING, Reason.NONE, "", {})
    second.check()
    lease.release()
    second.release()


def test_the_heart_hears_of_a_loss_by_itself(workspace: Workspace) -> None:
    """A process that is stuck outside of any commit is told through `on_lost`, once."""
    losses = threading.Semaphore(0)
    run, lease = leased(workspace, beat_seconds=0.01, on_lost=losses.release)
    with lease_closed(lease):
        take_away(workspace.store, run.id)
        assert losses.acquire(timeout=PATIENCE)
        lease._heartbeat.join(PATIENCE)
        assert not lease._heartbeat.is_alive()
        assert not losses.acquire(blocking=False)
        with pytest.raises(LeaseLost):
            lease.check()


def test_an_end_that_the_heart_sees_first_is_no_loss(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commit of the last move and our knowing of it, a beat is refused: nobody took the run."""
    lost: list[bool] = []
    run, lease = leased(workspace, on_lost=lambda: lost.append(True))
    lease.move(S.RUNNING, Reason.NONE, "", {})
    original = workspace.store.move

    def slowly(*args: Any) -> RunRow:
        moved = original(*args)
        beaten = threading.Thread(target=beat_once, args=(lease,))
        beaten.start()
        beaten.join()
        return moved

    monkeypatch.setattr(workspace.store, "move", slowly)
    assert lease.move(S.COMPLETED, Reason.NONE, "", {}) == (S.COMPLETED, Reason.NONE)
    lease.release()
    assert lost == []
    assert workspace.store.get(run.id).state == S.COMPLETED


def beat_once(lease: StoreLease) -> None:
    """The heart's work, once, here."""
    waits = iter([False, True])
    released = lease._released
    lease._released = SimpleNamespace(wait=lambda _: next(waits))  # type: ignore[assignment]
    try:
        lease._beat()
    finally:
        lease._released = released


# -- the store is away ------------------------------------------------------------------------------------------------


class Away:
    """The store as seen over a line that can be cut."""

    METHODS = ("token", "beat", "publish", "move")

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        for name in self.METHODS:
            monkeypatch.setattr(store, name, self._shaky(getattr(store, name)))

    def _shaky(self, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_away:
                raise StorageError("the store is away")
            return method(*args, **kwargs)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The monotonic clock of leases."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(lease_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.usefixtures("long_beats")
def test_a_store_that_is_away_for_a_moment_ends_no_run(
    workspace: Workspace, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(workspace.store, monkeypatch)
    with start_session(workspace, config(epochs=6)) as session:
        for tick in session:
            if tick.epoch == 2 and not away.is_away:
                away.is_away = True
                clock.now += TTL_SECONDS / 2 - 1  # checkpoints and metrics go on
            if tick.epoch == 4:
                away.is_away = False
    run = workspace.store.get(session.folder.id)
    assert run.state == S.COMPLETED
    assert run.state_hash == session.folder.read_status().state_hash
    newest = workspace.store.checkpoints(run.id)[0]
    assert newest.state_hash == run.state_hash


@pytest.mark.usefixtures("long_beats")
def test_what_could_not_be_published_is_published_with_the_end(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(workspace.store, monkeypatch)
    run, lease = leased(workspace)
    lease.move(S.RUNNING, Reason.NONE, "", {})
    found = {"step": 64, "state_hash": "abc", "manifest_sha256": "def"}
    away.is_away = True
    lease.publish([found])
    assert workspace.store.checkpoints(run.id) == []
    away.is_away = False
    lease.move(S.COMPLETED, Reason.NONE, "", {})
    assert [checkpoint.step for checkpoint in workspace.store.checkpoints(run.id)] == [64]
    lease.release()


@pytest.mark.usefixtures("long_beats")
def test_a_store_that_stays_away_ends_it_before_another_could_have_it(
    workspace: Workspace, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(workspace.store, monkeypatch)
    session = start_session(workspace, config(epochs=50))

    def train() -> None:
        with session:
            for tick in session:
                if tick.epoch == 2 and not away.is_away:
                    away.is_away = True
                    clock.now += TTL_SECONDS / 2

    with pytest.raises(StorageError, match="away"):
        train()
    assert workspace.store.get(session.folder.id).state == S.RUNNING  # it cannot be told; a reaper sees it
    status = session.folder.read_status()
    assert (status.state, status.reason) == (S.INTERRUPTED, Reason.STORAGE)


@pytest.mark.usefixtures("long_beats")
def test_row_52_a_server_that_is_away_is_waited_for(
    workspace: Workspace, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For minutes: the run goes on where it stands once the store is back."""
    monkeypatch.setattr(type(workspace.store.database), "is_server", True)
    away, waited = Away(workspace.store, monkeypatch), []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock.now += 60
        away.is_away = len(waited) % 4 != 0

    monkeypatch.setattr(lease_module.time, "sleep", sleep, raising=False)
    with start_session(workspace, config(epochs=6)) as session:
        for tick in session:
            if tick.epoch in (2, 6) and tick.report:
                away.is_away = True  # at the end too, when the run is COMPLETED
                clock.now += TTL_SECONDS
    assert len(waited) == 8
    assert workspace.store.get(session.folder.id).state == S.COMPLETED


@pytest.mark.usefixtures("long_beats")
def test_row_52_but_not_for_ever(workspace: Workspace, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(workspace.store.database), "is_server", True)
    monkeypatch.setenv(lease_module.PATIENCE_VARIABLE, "120")
    away = Away(workspace.store, monkeypatch)
    _, lease = leased(workspace)
    away.is_away = True
    clock.now = 5000.0
    monkeypatch.setattr(lease_module.time, "sleep", lambda seconds: setattr(clock, "now", clock.now + 1), raising=False)
    with pytest.raises(StorageError, match="away"):
        lease.check()
    assert clock.now == 5120.0
    away.is_away = False
    lease.release()


def test_row_40_a_store_put_back_to_an_old_copy_learns_how_the_run_ended(workspace: Workspace) -> None:
    with start_session(workspace, config(epochs=4)) as session:
        for tick in session:
            if tick.epoch == 2:
                with workspace.store.database.write() as connection:
                    connection.exec_driver_sql("DELETE FROM event WHERE version > 2")
                    connection.exec_driver_sql("UPDATE run SET state = 'STARTING', version = 2")
    assert workspace.store.get(session.folder.id).state == S.COMPLETED
    assert session.folder.read_status().state == S.COMPLETED
    assert_history(workspace.store, session.folder.id)


def test_an_end_that_could_not_be_told_is_told_on_release(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what it was, so that a scheduler tries again, and not as the wish of a user."""
    away = Away(workspace.store, monkeypatch)
    run, lease = leased(workspace)
    lease.move(S.RUNNING, Reason.NONE, "", {})
    away.is_away = True
    with pytest.raises(StorageError):
        lease.move(S.INTERRUPTED, Reason.STORAGE, "the store is away", {"env_steps": 96})
    away.is_away = False
    lease.release()
    after = workspace.store.get(run.id)
    assert (after.state, after.reason, after.env_steps) == (S.INTERRUPTED, Reason.STORAGE, 96)
    assert after.message == "the store is away"
    assert after.may_retry


def test_the_heart_survives_a_store_that_is_away(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[int] = []
    two_failed, two_went_well = threading.Event(), threading.Event()

    def shaky(run_id: str, token: int, progress: int, facts: Any) -> Desired:
        beats.append(progress)
        if len(beats) <= 2:
            raise StorageError("away")
        two_failed.set()
        if len(beats) > 3:
            two_went_well.set()
        return Desired.RUN

    monkeypatch.setattr(workspace.store, "beat", shaky)
    _, lease = leased(workspace, beat_seconds=0.01)
    assert two_failed.wait(60)
    assert two_went_well.wait(60)
    assert not lease.safe_point()
    lease.release()


def test_s1_stepping_and_evaluating_are_signs_of_life_before_any_update(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No safe point is reached in a warm-up, a rollout or an evaluation, which may last for hours."""
    monkeypatch.setattr(StoreLease.__init__, "__kwdefaults__", {"beat_seconds": 0.01, "on_lost": lambda: None})
    session = start_session(workspace, config(epochs=1, checkpoint_every=None))

    def progress() -> int:
        return workspace.store.get(session.folder.id).progress

    with session:
        agent, collector = session.trainer.agent, session.trainer.source.collector
        for act in (lambda: collector.collect(3), lambda: session.evaluations.after_training(agent, 0, 1)):
            before = progress()
            act()
            wait_for(lambda before=before: progress() > before)


# -- stop, cancel, release --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("desired", "state"), [(Desired.STOP, S.INTERRUPTED), (Desired.CANCEL, S.CANCELLED)], ids=str)
def test_a_wish_comes_with_the_heartbeat(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, desired: Desired, state: RunState
) -> None:
    """No signal: the run ends at its next safe point, with a checkpoint."""
    defaults = {"beat_seconds": 0.01, "on_lost": lambda: None}
    monkeypatch.setattr(StoreLease.__init__, "__kwdefaults__", defaults)
    session = start_session(workspace, config(epochs=10**6, checkpoint_every=None))

    def train() -> None:
        with session:
            for tick in session:
                if tick.epoch == 1 and workspace.store.get(session.folder.id).desired == Desired.RUN:
                    assert workspace.store.ask(session.folder.id, desired).state == S.STOPPING

    with pytest.raises(Interrupted):
        train()
    run, status = workspace.store.get(session.folder.id), session.folder.read_status()
    assert (run.state, run.reason) == (status.state, status.reason) == (state, Reason.USER)
    (checkpoint,) = workspace.store.checkpoints(run.id)
    assert checkpoint.state_hash == run.state_hash == status.state_hash
    assert run.env_steps == checkpoint.step > 0
    if desired == Desired.CANCEL:
        with pytest.raises(Conflict):
            workspace.store.resume(run.id)


@pytest.mark.usefixtures("long_beats")
def test_a_wish_from_before_it_began_needs_no_heartbeat(workspace: Workspace) -> None:
    run = claimed(workspace, epochs=10**6)
    workspace.store.ask(run.id, Desired.STOP)
    with pytest.raises(Interrupted), serve(workspace, run, on_lost=lambda: None) as session:
        for _ in session:
            pass
    after = workspace.store.get(run.id)
    assert (after.state, after.reason) == (S.INTERRUPTED, Reason.USER)


@pytest.mark.usefixtures("long_beats")
def test_leaving_the_loop_interrupts(workspace: Workspace) -> None:
    with start_session(workspace, config(epochs=50)) as session:
        for tick in session:
            if tick.epoch == 2:
                break
    run = workspace.store.get(session.folder.id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.USER)
    assert not run.may_retry


@pytest.mark.usefixtures("long_beats")
def test_released_without_a_word(workspace: Workspace) -> None:
    session = start_session(workspace, config())
    session.close()
    run = workspace.store.get(session.folder.id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.USER)
    lease = session.writer.lease
    lease.release()  # twice is once
    with pytest.raises(LeaseLost):
        lease.check()


def test_the_heart_ends_with_the_lease(workspace: Workspace) -> None:
    _, lease = leased(workspace, beat_seconds=0.01)
    assert len(hearts()) == 1
    lease.release()
    assert hearts() == []


def test_the_heart_tells_how_far_it_is(workspace: Workspace) -> None:
    run, lease = leased(workspace)
    with lease_closed(lease):
        for _ in range(3):
            assert not lease.safe_point()
        lease.tell({"env_steps": 96, "epoch": 3})
        beat_once(lease)
        after = workspace.store.get(run.id)
        assert (after.progress, after.env_steps, after.epoch) == (3 + PULSE.beats, 96, 3)
        assert after.heartbeat > run.heartbeat


# -- what goes wrong before there is a session ------------------------------------------------------------------------


@pytest.mark.usefixtures("long_beats")
def test_a_run_that_cannot_begin_says_why(workspace: Workspace) -> None:
    """Not: its user stopped it. The configuration is looked at before anything is taken."""
    run = claimed(workspace)
    folder = folder_of(workspace, run)
    folder.write_config(folder.read_config().replace("CartPole-v1", "NoSuchWorld-v0"))
    with pytest.raises(UserError):
        serve(workspace, run, on_lost=lambda: None)
    after = workspace.store.get(run.id)
    assert (after.state, after.reason) == (S.FAILED, Reason.CONFIG)
    assert after.message


@pytest.mark.usefixtures("long_beats")
@pytest.mark.parametrize(
    ("error", "end"),
    [
        (EnvFault("no display"), (S.FAILED, Reason.ENV_FAULT)),
        (StorageError("disk full"), (S.INTERRUPTED, Reason.STORAGE)),
        (ZeroDivisionError("ours"), (S.FAILED, Reason.INTERNAL)),
        (KeyboardInterrupt(), (S.INTERRUPTED, Reason.USER)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_breaks_while_a_session_is_built(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: BaseException, end: tuple[RunState, Reason]
) -> None:
    run = claimed(workspace)
    monkeypatch.setattr(Session, "_build", lambda *_, **__: (_ for _ in ()).throw(error))
    with pytest.raises(type(error)):
        serve(workspace, run, on_lost=lambda: None)
    after = workspace.store.get(run.id)
    assert (after.state, after.reason) == end
    defect = f"ZeroDivisionError: {error} at {Path(__file__).relative_to(Path.cwd())}:"
    assert after.message.startswith(defect) if end[1] == Reason.INTERNAL else after.message == str(error)
    assert after.may_retry == (end[1] in (Reason.ENV_FAULT, Reason.STORAGE))


@pytest.mark.usefixtures("long_beats")
def test_a_foreground_run_without_room_on_the_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError("no space left on device")

    monkeypatch.setattr(RunFolder, "create", full)
    with pytest.raises(StorageError):
        start_session(workspace, config())
    (run,) = workspace.store.runs()
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.STORAGE)


def test_what_another_has_is_not_spoken_of(workspace: Workspace) -> None:
    run = claimed(workspace)
    take_away(workspace.store, run.id)
    with pytest.raises(LeaseLost), recording_failure(workspace.store, run):
        raise LeaseLost("taken")
    with pytest.raises(UserError), recording_failure(workspace.store, run):
        raise UserError("a late word")
    assert workspace.store.get(run.id).reason == Reason.ORPHANED


# -- the runner, in this process --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("long_beats")
def test_the_runner_trains_what_was_claimed(workspace: Workspace) -> None:
    queued = enqueue(workspace, config())
    run = workspace.store.claim(queued.id, this_process())
    assert InProcessLauncher(workspace).launch(run, []).poll() == 0
    after = workspace.store.get(run.id)
    assert (after.state, after.epoch, after.has_process) == (S.COMPLETED, 4, True)
    assert runner.main(run.id, run.token, workspace.runs_dir) == LeaseLost.exit_code


@pytest.mark.usefixtures("long_beats")
def test_a_finished_run_is_extended_in_the_queue(workspace: Workspace) -> None:
    """The row says for how long; the folder hears of it from the process that goes on."""
    with start_session(workspace, config(epochs=2)) as session:
        for _ in session:
            pass
    with start_session(workspace, config(epochs=4)) as straight:
        for _ in straight:
            pass
    queued = requeue(workspace, workspace.store.get(session.folder.id), ["train.epochs=4"])
    assert (queued.state, queued.reason, queued.total_epochs) == (S.QUEUED, Reason.EXTENDED, 4)
    claimed_again = workspace.store.claim(queued.id, this_process())
    # Even where the first process that is started for it dies at once.
    reaped = workspace.store.reap(
        queued.id,
        claimed_again.token,
        claimed_again.heartbeat,
        Reason.ORPHANED,
        "",
        workspace.folder_facts(claimed_again),
    )
    assert reaped is not None
    assert reaped.total_epochs == 4
    workspace.store.resume(queued.id, Reason.RETRY)
    run = workspace.store.claim(queued.id, this_process())
    assert runner.main(run.id, run.token, workspace.runs_dir) == 0
    after = workspace.store.get(run.id)
    assert (after.state, after.epoch, after.total_epochs) == (S.COMPLETED, 4, 4)
    assert after.state_hash == workspace.store.get(straight.folder.id).state_hash
    assert "epochs: 4" in session.folder.read_config()


@pytest.mark.usefixtures("long_beats")
def test_a_run_whose_folder_is_elsewhere_does_not_begin_anew(workspace: Workspace) -> None:
    with start_session(workspace, config(epochs=50)) as session:
        for tick in session:
            if tick.epoch == 2:
                break
    session.folder.path.rename(workspace.runs_dir / "put-away")
    with pytest.raises(UserError, match="its folder is not in"):
        resume_session(workspace, workspace.store.get(session.folder.id))
    with pytest.raises(UserError, match="its folder is not in"):
        requeue(workspace, workspace.store.get(session.folder.id))
    assert not session.folder.path.exists()


@pytest.mark.real_process
def test_a_forked_child_that_leaves_the_session_ends_nothing(workspace: Workspace) -> None:
    """An environment may fork; a child that raises, or comes back, closes a copy of the session."""

    def close_a_copy() -> None:
        with pytest.raises(LeaseLost, match="this process has released the run"):
            session.close()

    with start_session(workspace, config()) as session:
        ticks = iter(session)
        next(ticks)
        assert in_child(close_a_copy) == 0
        for _ in ticks:
            pass
    run = workspace.store.get(session.folder.id)
    assert (run.state, run.reason) == (S.COMPLETED, Reason.NONE)
    assert_history(workspace.store, run.id)


@pytest.mark.usefixtures("long_beats")
@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED])
def test_an_end_whose_answer_was_lost_is_asked_for_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, end: RunState
) -> None:
    """The connection breaks after the server has committed: the run has ended, and nobody has taken it."""
    monkeypatch.setattr(type(workspace.store.database), "is_server", True)
    monkeypatch.setattr(lease_module.time, "sleep", lambda seconds: None, raising=False)
    run, lease = leased(workspace)
    lease.move(S.RUNNING, Reason.NONE, "", {})
    moved, answers = workspace.store.move, []

    def losing_the_first_answer(*given: Any) -> RunRow:
        answers.append(moved(*given))
        if len(answers) == 1:
            raise StorageError("the server closed the connection unexpectedly")
        return answers[-1]

    monkeypatch.setattr(workspace.store, "move", losing_the_first_answer)
    assert lease.move(end, Reason.NONE, "told once", {})[0] == end
    lease.release()
    assert_history(workspace.store, run.id)
    assert workspace.store.get(run.id).state == end
