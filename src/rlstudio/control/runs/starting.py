"""Heartbeats of a run whose process has it and is not ready yet: importing torch and building a run take a second, on a
busy machine a minute, which must not look like the silence of a dead process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rlstudio.control.runs.lease import BEAT_SECONDS
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.core.errors import LeaseLost, RunNotFound, StorageError


@contextmanager
def heartbeats(store: Store, run: RunRow, beat_seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Until the lease of the run sends its own. `progress` stays: one that never gets ready is found to be stuck."""
    is_ready = threading.Event()

    def beat() -> None:
        # Whoever took the run away tells its lease; a store that is away is waited for there.
        while not is_ready.wait(beat_seconds):
            with suppress(StorageError, LeaseLost, RunNotFound):
                store.beat(run.id, run.token, run.progress, {})

    thread = threading.Thread(target=beat, name=f"first heartbeats of {run.id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_ready.set()
        thread.join()
