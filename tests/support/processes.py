"""Processes of a test's own."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.warm_python import fork_from_here_on


def fork(act: Callable[[], object], starts_workers: bool = False) -> int:
    """Run `act` in a forked child; returns its id at once. What is opened there is the child's own. Workers of
    environments that it starts are forked as well, if it is said before that there will be some."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if starts_workers:
                fork_from_here_on()
            act()
            code = 0
        except SystemExit as end:  # of a worker: by its own will
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def in_child(act: Callable[[], object], starts_workers: bool = False) -> int:
    """Run `act` in a forked child. Its wait status (0: done, 9: killed)."""
    return os.waitpid(fork(act, starts_workers), 0)[1]


def failure_in_child(act: Callable[[], object]) -> str | None:
    """Run `act` in a forked child that may start workers: None, or the traceback of what it raised."""
    ours, theirs = os.pipe()

    def reported() -> None:
        os.close(ours)
        try:
            act()
        except BaseException:
            os.write(theirs, traceback.format_exc().encode()[-60_000:])  # what a pipe holds before anybody reads it
            raise

    pid = fork(reported, starts_workers=True)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        status = os.waitpid(pid, 0)[1]
        return None if status == 0 else pipe.read().decode() or f"the child ended with wait status {status}"


def has_ended(pid: int) -> bool:
    """Whether the child is gone; its wait status is still there to be asked for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(pid: int) -> int:
    """Kill -9 the child, unless it has ended already. Its wait status (0: it was done, 9: this killed it)."""
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


@contextmanager
def running(act: Callable[[], object]) -> Iterator[int]:
    """A forked child that is killed -9 when this is left, whatever happens."""
    pid = fork(act)
    try:
        yield pid
    finally:
        end(pid)


@contextmanager
def signals_as_in_a_terminal() -> Iterator[None]:
    """Children start with no signal ignored and none blocked, whatever we were started with: `nohup` ignores SIGHUP, a
    shell without job control SIGINT for what it puts into the background, and both would be inherited.

    We go on ignoring them ourselves, by a handler that does nothing: a handler is not inherited by another program.
    """
    stops = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    ignored = [signum for signum in stops if signal.getsignal(signum) == signal.SIG_IGN]
    for signum in ignored:
        signal.signal(signum, lambda *_: None)
    children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit codes away
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGCHLD, children)
        for signum in ignored:
            signal.signal(signum, signal.SIG_IGN)
