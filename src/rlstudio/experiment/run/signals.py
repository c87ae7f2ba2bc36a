"""Stopping politely: the first signal asks for a checkpoint at the next Tick, the second one leaves at once.

If no Tick comes within the grace period the process leaves on its last checkpoint: resume is exact anyway. Whoever
leaves without a Tick records first that the run was interrupted, on another thread: this one may stand in the middle of
a transaction, and must not wait for itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from rlstudio.core.host.process_exit import leave

GRACE_SECONDS = 4.0
RECORD_SECONDS = 2.0
"""How long leaving waits for the record."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The run was asked to stop; it is resumable."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class StopSignals:
    """Within the `with` block signals are noted in `received` instead of raising; only on the main thread.

    `on_stop` and `on_leave` are for whoever talks to the user: called within the handler, at the first signal and right
    before the process ends without a Tick."""

    def __init__(self, record: Callable[[int], None], grace: float = GRACE_SECONDS) -> None:
        self.received: int | None = None
        self.is_ending = False  # the run is being saved and recorded: a further signal does not break into that
        self.on_stop: Callable[[int], None] = lambda signum: None
        self.on_leave: Callable[[int], None] = lambda signum: None
        self._record = record
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
            if not self.is_ending:
                self._leave(signum)  # asked twice: at once, on the last checkpoint
            return
        self.received = signum
        # Only now: before a signal comes, the alarm is free for other code (an env's time-out).
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._grace_over)
        signal.setitimer(signal.ITIMER_REAL, self._grace)
        with suppress(Exception):
            self.on_stop(signum)

    def _grace_over(self, signum: int, frame: FrameType | None) -> None:
        self._leave(self.received or signal.SIGTERM)

    def _leave(self, signum: int) -> None:
        try:
            recording = threading.Thread(target=self._try_to_record, args=(signum,), daemon=True)
            recording.start()
            recording.join(RECORD_SECONDS)
            with suppress(Exception):
                self.on_leave(signum)
        finally:  # also where the disk fails: the process must end
            leave(128 + signum)

    def _try_to_record(self, signum: int) -> None:
        with suppress(Exception):
            self._record(signum)
