"""What every runner shares: reading the job, the clock and the answer. Standard library only.

A runner is a script that gets one JSON object as its argument and prints one JSON object as its last line. It runs in
its own library's environment, so it imports that library, torch, NumPy, Gymnasium and this file, which lies beside it.

The rate is taken between the end of the warm-up and the first mark that is `seconds` later, so that set-up, the first
optimizer and a torn last iteration are not part of it. `mark` is called when an iteration is done, update included.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def job() -> Job:
    """The settings of the row, and `what` to do, `threads`, `seconds`, `seed`, `started`."""
    given: Job = json.loads(sys.argv[1])
    return given


def answer(**values: Any) -> None:
    """Print the result; the driver reads the last line only, since libraries like to talk."""
    print(json.dumps({**values, "peak_rss_mb": round(peak_rss_mb(), 1)}), flush=True)


def since(started: float) -> float:
    """Seconds since the driver started this process; the monotonic clock is one for the whole machine."""
    return time.monotonic() - started


def peak_rss_mb() -> float:
    """Highest resident memory of this process.

    `ru_maxrss` is only the second choice: on Linux it survives `exec`, so it would show the driver's if that is more.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Done(Exception):
    """Raised by a runner to leave a training loop that has no other exit."""


class Window:
    """Counts environment steps per second between the warm-up and the end of the window."""

    def __init__(self, seconds: float, warmup_steps: int) -> None:
        self.seconds = seconds
        self.warmup_steps = warmup_steps
        self.done = False
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] = (0, 0.0)

    def mark(self, env_steps: int) -> bool:
        """One more iteration is done; True once the window is full."""
        if env_steps < self.warmup_steps:
            return False
        now = time.perf_counter()
        if self._first is None:
            self._first = (env_steps, now)
        self._last = (env_steps, now)
        self.done = now - self._first[1] >= self.seconds
        return self.done

    def result(self) -> dict[str, float]:
        if self._first is None or not self.done:
            raise SystemExit("the window was never filled: the run ended before")
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return {"steps_per_second": round(steps / seconds, 1), "env_steps": steps, "window_s": round(seconds, 3)}


def rate(call: Callable[[], object], seconds: float, warmup: int = 20) -> dict[str, float]:
    """How long one call takes, over as many as fit into `seconds`: the middle one, and the fastest tenth's."""
    for _ in range(warmup):
        call()
    times = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end or len(times) < 10:
        call()
        times.append(time.perf_counter() - begin)
    times.sort()
    return {"median_us": 1e6 * times[len(times) // 2], "p10_us": 1e6 * times[len(times) // 10], "calls": len(times)}
