"""Which process owns a run, told apart from every other: host, boot, pid and start time (a pid alone is reused)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    host: str
    boot_id: str
    pid: int
    pid_start: int  # clock ticks after boot: no wall clock is compared


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(os.uname().nodename, _boot_id(), pid, _start(pid) or 0)


def is_gone(owner: Owner) -> bool:
    """True only when certain: nothing can be said from here about a process of another host."""
    if owner.host != os.uname().nodename:
        return False
    return owner.boot_id != _boot_id() or _start(owner.pid) != owner.pid_start


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
