"""Worker: serves the queue of a store on this machine until it gets a signal to stop, or nothing is left to do.

Runs are processes of their own: they outlive the worker, and the next one takes their slots into account.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from rlstudio.control.queue.scheduler import Observed, Scheduler
from rlstudio.control.store.workers import Workers
from rlstudio.core.errors import StorageError
from rlstudio.core.host.process import this_process

TICK_SECONDS = 0.5
IDLE_TICKS = 2
"""A worker with nothing of its own to start, watch or retry looks only every so many ticks: each look is three
transactions of the store."""

BEAT_SECONDS = 5.0
GONE_SECONDS = 60.0


class Worker:
    def __init__(
        self,
        scheduler: Scheduler,
        *,
        until_idle: bool = False,
        tell: Callable[[Observed], None] = lambda observed: None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.id = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        self._scheduler = scheduler
        self._workers = Workers(scheduler.store.database)
        self._until_idle = until_idle
        self._tell = tell
        self._complain = complain
        self._stop_asked = False
        self._wake, self._waker = os.pipe()

    def serve(self, *, until_signal: bool = True) -> None:
        """Tick after tick. A store that is away is waited for. Not `until_signal`: until `stop`, in a thread."""
        self._workers.register(self.id, this_process(), self._scheduler.slots)
        signals = (signal.SIGINT, signal.SIGTERM) if until_signal else ()
        previous = {signum: signal.signal(signum, self._asked_to_stop) for signum in signals}
        try:
            self._loop()
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)
            with suppress(StorageError):
                self._workers.remove(self.id)

    def _loop(self) -> None:
        beat_at, failed = 0.0, 0
        while not self._stop_asked:
            ticks = 1
            try:
                observed = self._scheduler.tick()
                failed = 0
                if time.monotonic() >= beat_at:
                    self._beat(observed)
                    beat_at = time.monotonic() + BEAT_SECONDS
                self._tell(observed)
                if self._is_idle(observed):
                    if self._until_idle and self._leaves(observed):
                        return
                    ticks = IDLE_TICKS
            except StorageError as error:
                self._complain(str(error))
                failed += 1
                if self._until_idle and failed * TICK_SECONDS >= GONE_SECONDS:
                    return  # no user started it, and its store does not come back: the folder was removed
            self._wait(ticks * TICK_SECONDS)

    def _beat(self, observed: Observed) -> None:
        """Send a heartbeat, and delete the rows of workers that are gone, which each worker does for the others."""
        if not self._workers.beat(self.id, observed.throughput, observed.queue_depth):
            self._workers.register(self.id, this_process(), self._scheduler.slots)
        self._workers.alive()

    def _leaves(self, observed: Observed) -> bool:
        return self._workers.remove_if_idle(self.id, [run.id for run in observed.never])

    def _is_idle(self, observed: Observed) -> bool:
        return not (self._scheduler.processes or observed.waits or observed.queue_depth > len(observed.never))

    def _wait(self, seconds: float) -> None:
        """So many seconds, or until one of our processes ends: a free slot is not left empty."""
        opened = []
        for process in self._scheduler.processes.values():
            with suppress(OSError):
                opened.append(os.pidfd_open(process.pid))
        try:
            select.select([self._wake, *opened], [], [], seconds)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _asked_to_stop(self, signum: int, frame: FrameType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave after this tick; from a signal or another thread."""
        self._stop_asked = True
        os.write(self._waker, b"x")
