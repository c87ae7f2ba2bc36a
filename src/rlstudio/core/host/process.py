"""Which process owns a run, identified by host, boot, PID namespace, pid and start time (a pid alone is reused, and
each namespace has its own); what a forked child must not keep of its parent; and how a process shows that it lives."""

from __future__ import annotations

import fcntl
import getpass
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode of the PID namespace that a machine boots into, on every Linux; a container has another one."""

_called_in_children: set[Callable[[], None]] = set()


class Pulse:
    """Signs of life of this process: whoever steps an environment, updates weights or writes a checkpoint counts one.
    The heartbeat of a run reads it from another thread, so that a long warm-up or evaluation is not taken for a hang;
    it costs a step nothing that could be measured."""

    vector_steps = 0  # of the environments that a run learns from, so that a long rollout is seen to go on
    others = 0

    @property
    def beats(self) -> int:
        return self.vector_steps + self.others


PULSE = Pulse()


@dataclass(frozen=True)
class Owner:
    host: str
    boot_id: str
    pid: int
    pid_start: int  # clock ticks after boot: no wall clock is compared
    pid_namespace: int = 0  # inode of the namespace in which `pid` is its number; 0: not recorded (older records)

    @classmethod
    def from_record(cls, record: Mapping[Any, Any]) -> Owner:
        """From a row of the store, or anything else that has these fields under their names."""
        return cls(*(record[name] for name in ("host", "boot_id", "pid", "pid_start", "pid_namespace")))


class Presence(Enum):
    HERE = "here"
    GONE = "gone"
    UNKNOWN = "unknown"  # on another host, in another PID namespace, or hidden from this user


def user_name() -> str:
    """Who runs this process: the name of the account, or its number where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def this_process() -> Owner:
    return process_of(os.getpid())


def process_of(pid: int) -> Owner:
    """The process of this host and namespace that has this number now."""
    return Owner(os.uname().nodename, _boot_id(), pid, _start(pid) or 0, _namespace())


def presence(owner: Owner) -> Presence:
    """Whether a process lives, as far as this process can know (decision 0034)."""
    if owner.host != os.uname().nodename:
        return Presence.UNKNOWN
    if owner.boot_id != _boot_id():
        # This machine was booted since; or the two are containers with one name, on different machines.
        is_container = {owner.pid_namespace, _namespace()} - {0, FIRST_NAMESPACE}
        return Presence.UNKNOWN if is_container and owner.pid_namespace else Presence.GONE
    if owner.pid_namespace not in (0, _namespace()) or not _proc_is_ours():
        return Presence.UNKNOWN
    start = _start(owner.pid)
    if start is None and _is_hidden(owner.pid):
        return Presence.UNKNOWN
    return Presence.HERE if start == owner.pid_start else Presence.GONE


def is_gone(owner: Owner) -> bool:
    """True only when certain; a process that cannot be looked up counts as alive until its heartbeat is old."""
    return presence(owner) == Presence.GONE


def is_here(owner: Owner) -> bool:
    """True only when certain: it lives, and a signal reaches it from here."""
    return presence(owner) == Presence.HERE


@contextmanager
def opened(owner: Owner) -> Iterator[int | None]:
    """A handle on the very process (a pid alone may be another one's by now); None unless it is certainly here."""
    if not is_here(owner):
        yield None
        return
    try:
        descriptor = os.pidfd_open(owner.pid)
    except (ProcessLookupError, ValueError):
        yield None
        return
    try:
        # The handle keeps meaning the process it was opened for, so its start time is compared after opening.
        yield descriptor if is_here(owner) else None
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


def end_with(lifeline: int) -> None:
    """This process ends at once when the other end of the pipe closes, however its holder died, and even while code of
    an environment holds the interpreter: the kernel sends SIGIO."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def is_stopped(pid: int) -> bool:
    """Whether a signal (SIGSTOP, SIGTSTP) or a debugger holds it."""
    return _stat(pid)[0] in ("T", "t")


def call_in_children(function: Callable[[], None]) -> None:
    """Have `function` called in every child that is forked from now on, once however often this is asked."""
    if function not in _called_in_children:
        _called_in_children.add(function)
        os.register_at_fork(after_in_child=function)


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@cache
def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


@cache
def _proc_is_ours() -> bool:
    """Whether /proc has the numbers of our namespace: `unshare --pid` alone leaves that of the outer one mounted."""
    return os.readlink("/proc/self") == str(os.getpid())


def _is_hidden(pid: int) -> bool:
    """Whether a process may have this number although /proc does not show it to this user (`hidepid`)."""
    try:
        Path(f"/proc/{pid}/stat").read_bytes()
        return False
    except (FileNotFoundError, ProcessLookupError):
        pass
    except OSError:
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def _start(pid: int | str) -> int | None:
    """Start time of a living process; None for one that is gone or only waits to be collected by its parent."""
    state, *fields = _stat(pid)
    return None if state in "ZX" else int(fields[18])


def _stat(pid: int | str) -> list[str]:
    """The state of a process and the fields after it; of one that is gone, that it is dead."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["X"]
    return text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
