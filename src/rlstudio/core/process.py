"""Which process owns a run, identified by host, boot, pid and start time (a pid alone is reused); and what a
forked child must not keep of its parent."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_called_in_children: set[Callable[[], None]] = set()


@dataclass(frozen=True)
class Owner:
    host: str
    boot_id: str
    pid: int
    pid_start: int  # clock ticks after boot: no wall clock is compared


def this_process() -> Owner:
    return process_of(os.getpid())


def process_of(pid: int) -> Owner:
    """The process of this host that has this number now."""
    return Owner(os.uname().nodename, _boot_id(), pid, _start(pid) or 0)


def is_gone(owner: Owner) -> bool:
    """True only when certain: nothing can be said from here about a process of another host."""
    if owner.host != os.uname().nodename:
        return False
    return owner.boot_id != _boot_id() or _start(owner.pid) != owner.pid_start


@contextmanager
def opened(owner: Owner) -> Iterator[int | None]:
    """A handle on the very process (a pid alone may be another one's by now); None if it is gone or elsewhere."""
    if owner.host != os.uname().nodename:
        yield None
        return
    try:
        descriptor = os.pidfd_open(owner.pid)
    except (ProcessLookupError, ValueError):
        yield None
        return
    try:
        # The handle keeps meaning the process it was opened for, so its start time is compared after opening.
        yield None if is_gone(owner) else descriptor
    finally:
        os.close(descriptor)


def send(owner: Owner, signum: int) -> bool:
    """Whether the process was there to get the signal; PermissionError where it is another user's."""
    with opened(owner) as descriptor:
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, signum)
        except ProcessLookupError:
            return False
        return True


def call_in_children(function: Callable[[], None]) -> None:
    """Have `function` called in every child that is forked from now on, once however often this is asked."""
    if function not in _called_in_children:
        _called_in_children.add(function)
        os.register_at_fork(after_in_child=function)


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start(pid: int) -> int | None:
    """Start time of a living process; None for one that is gone or only waits to be collected by its parent."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
    return None if state in "ZX" else int(fields[18])
