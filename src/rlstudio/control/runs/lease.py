"""The lease of a run that the store knows: a token in its row, a lock on its folder, and a heart that beats.

Every commit is checked against both. The heart runs in a thread of its own: it tells the store that the process lives
and how far the run is, and hears from it what the user wants. When the run was taken away the heart says so too, so
that a process that is stuck outside of any commit goes as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rlstudio.control.lifecycle import ENDED, Desired
from rlstudio.control.store.reaper import TTL_SECONDS
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.core.contracts import State
from rlstudio.core.errors import Conflict, LeaseLost, StorageError
from rlstudio.core.run_state import Reason, RunState, end_of
from rlstudio.experiment.folder.lease import FileLease

BEAT_SECONDS = 5.0


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
        self._file = FileLease(folder, seize=True)  # the store says that the run is ours
        self._facts: State = {}
        self._progress = run.progress
        self._pause_at = run.pause_at
        self._confirmed_at = time.monotonic()
        self._stop_asked = self._has_ended = self._is_lost = self._is_ending = False
        # A managed run that never began is told of by the process that was started for it: it knows what went wrong.
        self._has_begun = not run.is_managed
        self._last_words: tuple[RunState, Reason, str] = (RunState.INTERRUPTED, Reason.USER, "")
        self._unpublished: Sequence[State] | None = None
        self._released = threading.Event()
        self._heart = threading.Thread(target=self._beat, name=f"heart of {run.id}", daemon=True)
        self._heart.start()

    # -- what the session says --------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._is_lost:
            raise LeaseLost(f"run {self.run_id}: was taken by another owner; writing nothing more")
        self._file.check()
        try:
            token = self._store.token(self.run_id)
        except StorageError:
            if self._is_surely_ours():
                return
            raise
        if token != self.token:
            self._is_lost = True
            raise LeaseLost(f"run {self.run_id}: was taken by another owner (token {token}); writing nothing more")
        self._confirmed_at = time.monotonic()

    def _is_surely_ours(self) -> bool:
        """A store that is away for a moment ends no run: until it would be taken from us nobody else can have it."""
        return time.monotonic() - self._confirmed_at < TTL_SECONDS / 2

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        self._file.check()
        self._has_begun, self._facts = True, facts
        if (state, reason) == (RunState.INTERRUPTED, Reason.SIGNAL) and self._is_at_pause():
            reason = Reason.PAUSED  # nobody sent a signal: `safe_point` said so
        if state in ENDED:
            self._last_words = (state, reason, message)
            self._publish_late()
        self._is_ending = state in ENDED  # the heart may find it ended before we know: that is no loss
        try:
            run = self._store.move(self.run_id, self.token, state, reason, message, facts)
            self._has_ended = run.state in ENDED
        finally:
            self._is_ending = False
        self._stop_asked = self._stop_asked or run.desired != Desired.RUN  # asked while it started
        return run.state, run.reason

    def safe_point(self) -> bool:
        self._progress += 1
        return self._stop_asked or self._is_at_pause()

    def _is_at_pause(self) -> bool:
        """Whether it has come to the epoch after which its sweep wants it to wait."""
        return bool(0 < self._pause_at <= self._facts.get("epoch", 0))

    def tell(self, facts: State) -> None:
        self._facts = facts  # the heart takes it along

    def publish(self, checkpoints: Sequence[State]) -> None:
        try:
            self._store.publish(self.run_id, self.token, checkpoints)
            self._unpublished = None
        except StorageError:
            if not self._is_surely_ours():
                raise
            self._unpublished = checkpoints  # the folder has them; the store learns it with the next ones, or the end

    def _publish_late(self) -> None:
        if self._unpublished is not None:
            with suppress(StorageError):
                self.publish(self._unpublished)

    def release(self) -> None:
        """Nothing that was held stays held: a run without an end is interrupted, and says so. An end that could not be
        told, because the store was away, is told now if it is back."""
        if self._released.is_set():
            return
        self._released.set()
        if threading.current_thread() is not self._heart:
            self._heart.join()
        if not self._has_ended and self._has_begun:
            with suppress(LeaseLost, Conflict, StorageError):
                self._store.move(self.run_id, self.token, *self._last_words, self._facts)
        self._file.release()

    # -- the heart --------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._released.wait(self._beat_seconds):
            if self._has_ended:
                continue
            try:
                desired = self._store.beat(self.run_id, self.token, self._progress, self._facts)
            except StorageError:
                continue  # told to the session by its next commit, if it lasts
            except LeaseLost:
                if not (self._is_ending or self._has_ended):
                    self._is_lost = True
                    self._on_lost()
                return
            self._confirmed_at = time.monotonic()
            self._stop_asked = desired != Desired.RUN


@contextmanager
def told_if_it_fails(store: Store, run: RunRow) -> Iterator[None]:
    """Between the claim of a run and its session: what goes wrong is told, so that no run seems to start for ever."""
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
