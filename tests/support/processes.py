"""Processes of a test's own."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable


def fork(act: Callable[[], object]) -> int:
    """Run `act` in a forked child; returns its id at once. What is opened there is the child's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def in_child(act: Callable[[], object], kill_after: float | None = None) -> int:
    """Run `act` in a forked child, and kill -9 it after so many seconds. Its wait status (0: done, 9: killed)."""
    pid = fork(act)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]
