"""The lease of a run that the store knows: a token in its row, a lock on its folder, and a heartbeat.

Every commit is checked against token and lock. The heartbeat has a thread of its own: it tells the store that the
process lives and how far the run is, and reads from it what the user wants. When the run was taken away it calls
`on_lost`, so that a process that is stuck outside of any commit ends as well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rlstudio.control.lifecycle import ENDED, Desired
from rlstudio.control.store.reaper import TTL_SECONDS
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.core.contracts import State
from rlstudio.core.errors import Conflict, FilesClosed, LeaseLost, StorageError, UserError
from rlstudio.core.run_state import Reason, RunState, end_of
from rlstudio.experiment.folder.lease import FileLease

BEAT_SECONDS = 5.0
RETRY_SECONDS = 0.5
PATIENCE_SECONDS = 600.0
PATIENCE_VARIABLE = "RLSTUDIO_STORE_PATIENCE"
"""For how many seconds a run waits for a server that is away."""

T = TypeVar("T")


class StoreLease:
    """Implements `core.contracts.Lease`."""

    def __init__(
        self,
        store: Store,
        run: RunRow,
        folder: Path,
        *,
        beat_seconds: float = BEAT_SECONDS,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.run_id, self.token = run.id, run.token
        self._store = store
        self._beat_seconds = beat_seconds
        self._on_lost = on_lost
        self._patience = _patience()
        self._pid = os.getpid()
        self._file = FileLease(folder, seize=True)  # the store says that the run is ours
        self._facts: State = {}
        self._progress = run.progress
        self._pause_at = run.pause_at
        self._confirmed_at = time.monotonic()
        self._stop_asked = self._has_ended = self._is_lost = self._is_ending = False
        # The end of a managed run that never began is recorded by its process (`recording_failure`), which knows why.
        self._has_begun = not run.is_managed
        self._end: tuple[RunState, Reason, str] = (RunState.INTERRUPTED, Reason.USER, "")
        self._unpublished: Sequence[State] | None = None
        self._released = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, name=f"heartbeat of {run.id}", daemon=True)
        self._heartbeat.start()

    # -- called by the session --------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._is_lost:
            raise LeaseLost(f"run {self.run_id}: was taken by another owner; writing nothing more")
        self._check_folder()
        try:
            token = self._store.token(self.run_id)
        except StorageError:
            if self._is_surely_ours():
                return
            token = self._when_back(lambda: self._store.token(self.run_id))
        if token != self.token:
            self._is_lost = True
            raise LeaseLost(f"run {self.run_id}: was taken by another owner (token {token}); writing nothing more")
        self._confirmed_at = time.monotonic()

    def _check_folder(self) -> None:
        """What is wrong with the folder is how the run ended, unless the session has another end to record."""
        try:
            self._file.check()
        except (LeaseLost, StorageError) as error:
            if isinstance(error, FilesClosed):
                self._store.database.abandon_connections()
            self._end = (RunState.INTERRUPTED, Reason.STORAGE, str(error))
            raise

    def _is_surely_ours(self) -> bool:
        """A store that is away for a moment ends no run: no other process can take it from us before TTL_SECONDS."""
        return time.monotonic() - self._confirmed_at < TTL_SECONDS / 2

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        self._check_folder()
        self._has_begun, self._facts = True, facts
        if (state, reason) == (RunState.INTERRUPTED, Reason.SIGNAL) and self._is_at_pause():
            reason = Reason.PAUSED  # no signal was sent: `safe_point` returned True
        if state in ENDED:
            self._end = (state, reason, message)
            self._publish_late()
        self._is_ending = state in ENDED  # the heartbeat may read the end before `move` returns
        try:
            if state == RunState.INTERRUPTED:  # on the way out, perhaps in a signal handler: nothing is waited for
                run = self._moved(state, reason, message, facts)
            else:
                run = self._when_back(lambda: self._moved(state, reason, message, facts))
            self._has_ended = run.state in ENDED
        finally:
            self._is_ending = False
        self._stop_asked = self._stop_asked or run.desired != Desired.RUN  # asked while it started
        return run.state, run.reason

    def _moved(self, state: RunState, reason: Reason, message: str, facts: State) -> RunRow:
        try:
            return self._store.move(self.run_id, self.token, state, reason, message, facts)
        except LeaseLost:
            run = self._store.get(self.run_id)
            if run.token == self.token and (run.state, run.reason, run.message) == (state, reason, message):
                return run  # the store took it before; only its answer was lost
            raise
        except Conflict:
            # The store was put back to a copy from before this run began to train; the run is ours all the same.
            self._store.move(self.run_id, self.token, RunState.RUNNING, Reason.NONE, "", facts)
            return self._store.move(self.run_id, self.token, state, reason, message, facts)

    def _when_back(self, ask: Callable[[], T]) -> T:
        """Ask the store, and again while it is away. A server is waited for: it alone could give the run to another
        process, and what it says afterwards counts. A file that cannot be read is a matter for its user, at once."""
        away_since = time.monotonic()
        while True:
            try:
                return ask()
            except StorageError:
                if not self._store.database.is_server or time.monotonic() - away_since >= self._patience:
                    raise
                time.sleep(RETRY_SECONDS)

    def safe_point(self) -> bool:
        self._progress += 1
        return self._stop_asked or self._is_at_pause()

    def _is_at_pause(self) -> bool:
        """Whether it has come to the epoch after which its sweep wants it to wait."""
        return bool(0 < self._pause_at <= self._facts.get("epoch", 0))

    def tell(self, facts: State) -> None:
        self._facts = facts  # sent with the next heartbeat

    def publish(self, checkpoints: Sequence[State]) -> None:
        try:
            self._store.publish(self.run_id, self.token, checkpoints)
            self._unpublished = None
        except StorageError:
            if not self._is_surely_ours():
                self._when_back(lambda: self._store.publish(self.run_id, self.token, checkpoints))
                self._unpublished = None
                return
            self._unpublished = checkpoints  # the folder has them; the store learns it with the next ones, or the end

    def _publish_late(self) -> None:
        if self._unpublished is not None:
            with suppress(StorageError):
                self.publish(self._unpublished)

    def release(self) -> None:
        """Stop the heartbeat and free the lock. A run without an end is recorded as interrupted; an end that could not
        be recorded because the store was away is recorded now if it is back."""
        if self._released.is_set():
            return
        self._released.set()
        if os.getpid() != self._pid:
            return  # a forked child: the run is its parent's, and goes on
        if threading.current_thread() is not self._heartbeat:
            self._heartbeat.join()
        if not self._has_ended and self._has_begun:
            with suppress(LeaseLost, Conflict, StorageError):
                self._store.move(self.run_id, self.token, *self._end, self._facts)
        self._file.release()

    # -- heartbeat -------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._released.wait(self._beat_seconds):
            if self._has_ended:
                continue
            try:
                desired = self._store.beat(self.run_id, self.token, self._progress, self._facts)
            except StorageError:
                continue  # the session's next commit reports it, if it lasts
            except LeaseLost:
                if not (self._is_ending or self._has_ended):
                    self._is_lost = True
                    self._on_lost()
                return
            self._confirmed_at = time.monotonic()
            self._stop_asked = desired != Desired.RUN


def _patience() -> float:
    given = os.environ.get(PATIENCE_VARIABLE) or PATIENCE_SECONDS
    try:
        return float(given)
    except ValueError:
        raise UserError(f"{PATIENCE_VARIABLE}: {given!r} is not a number of seconds") from None


@contextmanager
def recording_failure(store: Store, run: RunRow) -> Iterator[None]:
    """Between the claim of a run and its session: an error is recorded as the run's end, so that it is not STARTING for
    ever."""
    try:
        yield
    except LeaseLost:
        raise
    except BaseException as error:
        state, reason = end_of(error) if isinstance(error, Exception) else (RunState.INTERRUPTED, Reason.USER)
        message = f"{type(error).__name__}: {error}" if reason == Reason.INTERNAL else str(error)
        with suppress(LeaseLost, Conflict, StorageError):
            store.move(run.id, run.token, state, reason, message)
        raise
