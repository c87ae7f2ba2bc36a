"""An `os._exit` of other code must not pass for the end of our own program: `os._exit(0)` would look like success.

While `noticing_exits` is active, `os._exit` on the main thread raises `ProcessExit` instead, which an environment's
caller turns into a fault that names the environment, as it does with `sys.exit`. On another thread nobody could catch
it: there it is reported and ends the process, with a status that is not 0. Forked children end as they ask to. Code in
C that ends the process is not noticed; only a parent process could.

`report_crashes` is for those that a signal ends: a fault in native code, `os.abort`. `end_with_parent` is for a process
that must not outlive the one that started it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

leave: Callable[[int], NoReturn] = os._exit
"""Ends this process at once, also while exits are noticed: for our own use."""


PARENT_VARIABLE = "RLSTUDIO_PARENT"
"""The pid of the parent without which a process is not to go on."""

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class ProcessExit(SystemExit):
    """Other code called `os._exit` on the main thread."""

    def __init__(self, status: int) -> None:
        super().__init__(f"os._exit({status})")


@contextmanager
def noticing_exits(report: Callable[[str], None]) -> Iterator[None]:
    """`report` gets the line about an exit that cannot be raised."""
    owner, before = os.getpid(), os._exit

    def noticed(status: int) -> NoReturn:
        if os.getpid() != owner:
            leave(status)
        if threading.current_thread() is threading.main_thread():
            raise ProcessExit(status)
        report(f"the process is ended by os._exit({status}) in thread {threading.current_thread().name!r}")
        leave(status or 1)

    os._exit = noticed
    try:
        yield
    finally:
        os._exit = before


def report_crashes() -> None:
    """From now on Python's stack is written to standard error when native code ends the process by a signal."""
    with suppress(OSError, AttributeError, RuntimeError):  # standard error is closed, or a stream in memory, or None
        if not faulthandler.is_enabled():
            faulthandler.enable(all_threads=False)


def end_with_parent() -> None:
    """Where PARENT_VARIABLE names the parent: get SIGTERM when that ends, or now if it has ended already."""
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)
