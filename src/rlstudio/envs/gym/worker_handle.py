"""The parent's side of one worker process: start it, talk to it, notice when it dies or hangs, end it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Protocol

from rlstudio.core import errors
from rlstudio.core.contracts import State
from rlstudio.core.errors import EnvFault, RLStudioError
from rlstudio.core.host.process import is_stopped
from rlstudio.envs.gym.env_block import BrokenContract

GLANCE = 0.1  # seconds between looks at the progress of a worker that has not answered yet
SILENT = 1.0  # seconds that a worker which is to answer may be stopped by a signal
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds before a worker is replaced for the first time in a row, the second time, ...; then always the last."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def pause_before(restart: int) -> float:
    """How long to wait before the first, second, ... restart in a row."""
    return PAUSES[min(restart, len(PAUSES)) - 1]


class WorkerDown(Exception):
    """The worker died or hung; the message says how."""


class WorkerProcess(Protocol):
    """What a Popen has too."""

    pid: int

    def wait(self, timeout: float | None = None) -> int | None:
        """The code it ended with, None where nobody knows; subprocess.TimeoutExpired."""
        ...

    def kill(self) -> None: ...


StartWorker = Callable[[Sequence[int]], WorkerProcess]
"""Starts a process that is given these descriptors."""


def worker_environment() -> dict[str, str]:
    """Our import path, since a worker shares nothing else of ours, and one thread each."""
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def env_worker(fds: Sequence[int]) -> subprocess.Popen[bytes]:
    """A worker of `vectorization: async`."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rlstudio.envs.gym.worker", *map(str, fds)],
        pass_fds=fds,
        env=worker_environment(),
        stdin=subprocess.DEVNULL,
        stdout=2,  # what an env prints must not end up in the program's own output
        start_new_session=True,  # Ctrl-C in the terminal is the parent's alone
    )


class WorkerHandle:
    """The process is started with the numbers of its descriptors: of the pipe that it is asked through, of the one that
    it ends with, and of the memory that it shares."""

    def __init__(self, *memory_fds: int, start: StartWorker = env_worker) -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self.process = start((theirs.fileno(), lifeline, *memory_fds))
        except BaseException:
            ours.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        self._control: Connection | None = Connection(ours.detach())

    def send(self, request: bytes) -> None:
        """Nothing is raised when the worker is gone: `reply` will say so."""
        try:
            self.control.send_bytes(request)
        except (EOFError, OSError):
            return

    def reply(self, timeout: float, progress: Callable[[], int] = lambda: 0) -> State:
        """The answer to the last request; `timeout` seconds without any progress count as a hang. That the process was
        stopped by a signal is sure, and needs no such patience."""
        last, since = progress(), time.monotonic()
        stopped: float | None = None
        try:
            while True:
                answer = self.control.recv_bytes() if self.control.poll(min(GLANCE, timeout)) else b""
                if answer and answer != b"+":
                    break
                reached, now = progress(), time.monotonic()
                stopped = (stopped or now) if is_stopped(self.process.pid) else None
                if stopped is not None and now - stopped >= SILENT:
                    raise WorkerDown(f"hung: stopped by a signal for {SILENT:g} s")
                if answer or reached != last:
                    last, since = reached, now
                elif now - since >= timeout:
                    raise WorkerDown(f"hung: no answer within {timeout:g} s")
        except (EOFError, OSError):
            raise WorkerDown(self._cause_of_death()) from None
        if answer[:1] == b"!":
            raise fault_from(*json.loads(answer[1:]))
        value: State = json.loads(answer[1:])
        return value

    @property
    def is_open(self) -> bool:
        """Whether `end` was not called yet."""
        return self._control is not None

    @property
    def control(self) -> Connection:
        if self._control is None:
            raise EOFError
        return self._control

    def _cause_of_death(self) -> str:
        try:
            code = self.process.wait(1)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code is None:
            return "ended, and nobody knows how"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def ask_to_stop(self) -> None:
        if self._control is not None:
            self.send(b"C")

    def end(self, grace: float = 0.0) -> None:
        """Gone when this returns: by itself within `grace` seconds, else killed."""
        if self._control is None:
            return
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._control.close()
        self._control = None
        os.close(self._lifeline)


class EndableWorker(Protocol):
    def ask_to_stop(self) -> None: ...

    def end(self, grace: float = 0.0) -> None: ...


def end_all(workers: Sequence[EndableWorker], grace: float, then: Callable[[], object]) -> None:
    """Together they get so many seconds to close their envs; the others are killed. `then` closes what they shared."""
    deadline = time.monotonic() + grace
    for worker in workers:
        worker.ask_to_stop()
    for worker in workers:
        worker.end(max(0.0, deadline - time.monotonic()))
    then()


def fault_from(kind: str, text: str, trace: str) -> RLStudioError:
    """The worker's error as ours; only names of our own error tree are looked up."""
    fault_type = BrokenContract if kind == BrokenContract.__name__ else getattr(errors, kind, EnvFault)
    error: RLStudioError = fault_type(text)
    error.add_note(f"in a worker process:\n{trace}")
    return error
