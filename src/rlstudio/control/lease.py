"""The lease of a run that the store knows: a token in its row, a lock on its folder, and a heart that beats.

Every commit is checked against both. The heart runs in a thread of its own: it tells the store that the process lives
and how far the run is, and hears from it what the user wants. When the run was taken away the heart says so too, so
that a process that is stuck outside of any commit goes as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rlstudio.control.lifecycle import ENDED, Desired
from rlstudio.control.reaper import TTL_SECONDS
from rlstudio.control.store.records import Run
from rlstudio.control.store.store import Store
from rlstudio.core.contracts import State
from rlstudio.core.errors import LeaseLost, StorageError
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.lease import FileLease

BEAT_SECONDS = 5.0


class StoreLease:
    """Implements `core.contracts.Lease`."""

    def __init__(
        self,
        store: Store,
        run: Run,
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
        self._confirmed_at = time.monotonic()
        self._stop_asked = self._has_ended = self._is_lost = False
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
            # A store that is away for a moment ends no run: until it would be taken from us nobody else can have it.
            if time.monotonic() - self._confirmed_at < TTL_SECONDS / 2:
                return
            raise
        if token != self.token:
            self._is_lost = True
            raise LeaseLost(f"run {self.run_id}: was taken by another owner (token {token}); writing nothing more")
        self._confirmed_at = time.monotonic()

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        self._file.check()
        run = self._store.move(self.run_id, self.token, state, reason, message, facts)
        self._has_ended = run.state in ENDED
        return run.state, run.reason

    def safe_point(self) -> bool:
        self._progress += 1
        return self._stop_asked

    def tell(self, facts: State) -> None:
        self._facts = facts  # the heart takes it along

    def publish(self, checkpoints: Sequence[State]) -> None:
        self._store.publish(self.run_id, self.token, checkpoints)

    def release(self) -> None:
        """Nothing that was held stays held: a run without an end is interrupted, and says so."""
        if self._released.is_set():
            return
        self._released.set()
        if threading.current_thread() is not self._heart:
            self._heart.join()
        if not self._has_ended:
            with suppress(LeaseLost, StorageError):
                self._store.move(self.run_id, self.token, RunState.INTERRUPTED, Reason.USER, "", self._facts)
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
                if not self._has_ended:
                    self._is_lost = True
                    self._on_lost()
                return
            self._confirmed_at = time.monotonic()
            self._stop_asked = desired != Desired.RUN
