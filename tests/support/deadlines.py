"""How long tests wait before they give up: one number, measured once when the tests start.

A deadline ends a hang and decides nothing else (docs/decisions/0013-tests-and-time.md), so it is far above what things
take. How long that is depends on the machine and on what else it does: `SLOWNESS` says how many times as long as
expected a fixed piece of work takes, and never less than 1. Processes that run tests for us inherit it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

VARIABLE = "RLSTUDIO_TEST_SLOWNESS"
EXPECTED = 0.1
"""Seconds for the piece of work: an interpreter that counts a million, on an idle machine of 2 GHz."""


def _measured() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", "for i in range(1_000_000): i * i"], check=True)
    took = time.monotonic() - started
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)  # the piece of work may have been lucky
    return max(1.0, took / EXPECTED, waiting)


if VARIABLE not in os.environ:
    os.environ[VARIABLE] = f"{_measured():.2f}"

SLOWNESS = float(os.environ[VARIABLE])
PATIENCE = 120 * SLOWNESS
"""Seconds that anything may take that a test waits for."""
TEST_LIMIT = 600 * SLOWNESS
"""Seconds after which a test is ended from outside."""
