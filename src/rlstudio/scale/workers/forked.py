"""Worker processes as the learner has them, forked by a process that has imported everything (`template.py`)."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence

from rlstudio.core.errors import EnvFault
from rlstudio.core.host.process import is_stopped
from rlstudio.envs.gym.worker_handle import SILENT, worker_environment
from rlstudio.scale.workers.template import MODULE

IMPORT_SECONDS = 120.0
"""The template imports torch first: seconds, on a machine that does much else perhaps many."""

TELL_SECONDS = 1.0
"""From the end of a process until the template has said how it ended."""

GLANCE = 0.1


class ForkedProcess:
    """A worker that is no child of ours: `wait` and `kill` as those of a Popen, by a handle on the very process."""

    def __init__(self, pid: int, handle: int, code: int) -> None:
        self.pid = pid
        self._handle, self._code = handle, code
        self._finalizer = weakref.finalize(self, _close, handle, code)
        self._is_over = False
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int | None:
        """The code it ended with, negative for a signal; None where nobody could say. subprocess.TimeoutExpired."""
        if not self._is_over:
            if not _is_readable(self._handle, timeout):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            said = os.read(self._code, 16) if _is_readable(self._code, TELL_SECONDS) else b""
            self.returncode = int(said) if said else None
            self._is_over = True
            self._finalizer()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if not self._is_over:
            try:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            except ProcessLookupError:
                return


class WorkerTemplate:
    """Starts a process that imports `modules` when the first worker is asked for, and another where that one is gone or
    stopped: workers that it has forked go on without it."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = tuple(modules)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._given: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def fork(self, descriptors: Sequence[int]) -> ForkedProcess:
        """A worker with these."""
        for attempt in (1, 2):
            if self._process is None:
                self._start()
            forked = self._ask(descriptors)
            if forked is not None:
                return forked
            how = self._end()
            if attempt == 2:
                break
        raise EnvFault(f"rollout.workers: the process that workers are forked from {how}; its output says why")

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._given = worker_environment()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), *self._modules],
                pass_fds=[theirs.fileno()],
                env=self._given,
                stdin=subprocess.DEVNULL,
                stdout=2,  # what an env prints must not end up in the program's own output
                start_new_session=True,  # Ctrl-C in the terminal is the learner's alone
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours

    def _ask(self, descriptors: Sequence[int]) -> ForkedProcess | None:
        """None where the template is gone or stopped."""
        assert self._control is not None
        code, codes = os.pipe()
        try:
            request = json.dumps(_changes(self._given, worker_environment())).encode()
            socket.send_fds(self._control, [request], [*descriptors, codes])
            if self._answers():
                pid, handles, _, _ = socket.recv_fds(self._control, 32, 1)
                if pid:
                    return ForkedProcess(int(pid), handles[0], code)
        except OSError:  # it is gone
            pass
        finally:
            os.close(codes)
        os.close(code)
        return None

    def _answers(self) -> bool:
        """Whether the template says something, be it that it is gone."""
        assert self._process is not None
        assert self._control is not None
        until, stopped = time.monotonic() + IMPORT_SECONDS, 0.0
        while not _is_readable(self._control.fileno(), GLANCE):
            stopped = stopped + GLANCE if is_stopped(self._process.pid) else 0.0
            if stopped >= SILENT or time.monotonic() >= until:
                return False
        return True

    def _end(self) -> str:
        """How it ended; by force where it did not."""
        process, self._process = self._process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is None:
            return "is closed"
        try:
            code = process.wait(GLANCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "did not answer"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def close(self) -> None:
        """Once its workers are gone. Again: nothing."""
        self._end()


def _changes(before: dict[str, str], now: dict[str, str]) -> dict[str, str | None]:
    """What became of the environment since the template was started."""
    changed: dict[str, str | None] = {name: value for name, value in now.items() if before.get(name) != value}
    return {**changed, **dict.fromkeys(before.keys() - now.keys())}


def _is_readable(descriptor: int, timeout: float | None) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if timeout is None else 1e3 * timeout))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
