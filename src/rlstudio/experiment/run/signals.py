"""Stopping politely: the first signal asks for a checkpoint at the next Tick, the second one leaves at once.

If no Tick comes within the grace period the process leaves on its last checkpoint: resume is exact anyway.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from rlstudio.core.host.process_exit import leave

GRACE_SECONDS = 4.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The run was asked to stop; it is resumable."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class StopSignals:
    """Within the `with` block signals are noted in `received` instead of raising; only on the main thread."""

    def __init__(self, on_grace_over: Callable[[int], None], grace: float = GRACE_SECONDS) -> None:
        self.received: int | None = None
        self._on_grace_over = on_grace_over
        self._grace = grace
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | signal.Handlers | None] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            # `nohup` asks that a closed terminal change nothing.
            handled = [s for s in SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
            self._previous = {signum: signal.signal(signum, self._note) for signum in handled}
        return self

    def __exit__(self, *_: object) -> None:
        if signal.SIGALRM in self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def raise_if_received(self) -> None:
        if self.received is not None:
            raise Interrupted(self.received)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.received is not None:
            leave(128 + signum)  # asked twice: at once, on the last checkpoint
        self.received = signum
        # Only now: before a signal comes, the alarm is free for other code (an env's time-out).
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._leave)
        signal.setitimer(signal.ITIMER_REAL, self._grace)

    def _leave(self, signum: int, frame: FrameType | None) -> None:
        received = self.received or signal.SIGTERM
        try:
            self._on_grace_over(received)
        finally:  # also where the disk fails: the process must end
            leave(128 + received)
