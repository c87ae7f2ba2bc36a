"""The parent's side of one worker process: start it, talk to it, notice when it dies or hangs, end it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from rlstudio.core import errors
from rlstudio.core.contracts import State
from rlstudio.core.errors import EnvFault, RLStudioError
from rlstudio.envs.gym.env_block import BrokenContract

GLANCE = 0.1  # seconds between looks at the progress of a worker that has not answered yet

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerDown(Exception):
    """The worker died or hung; the message says how."""


class WorkerHandle:
    """`module` is what the process runs, with the numbers of its descriptors: of the pipe that it is asked through, of
    the one that it ends with, and of the memory that it shares."""

    def __init__(self, *memory_fds: int, module: str = "rlstudio.envs.gym.worker") -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        fds = (theirs.fileno(), lifeline, *memory_fds)
        # The environment of the worker: our import path, since it shares nothing else of ours, and one thread each.
        environment = {
            **os.environ,
            **dict.fromkeys(THREADS, "1"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, fds)],
                pass_fds=fds,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,  # what an env prints must not end up in the program's own output
                start_new_session=True,  # Ctrl-C in the terminal is the parent's alone
            )
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
        """The answer to the last request; `timeout` seconds without any progress count as a hang."""
        last, since = progress(), time.monotonic()
        try:
            while True:
                answer = self.control.recv_bytes() if self.control.poll(min(GLANCE, timeout)) else b""
                if answer and answer != b"+":
                    break
                reached, now = progress(), time.monotonic()
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


def fault_from(kind: str, text: str, trace: str) -> RLStudioError:
    """The worker's error as ours; only names of our own error tree are looked up."""
    fault_type = BrokenContract if kind == BrokenContract.__name__ else getattr(errors, kind, EnvFault)
    error: RLStudioError = fault_type(text)
    error.add_note(f"in a worker process:\n{trace}")
    return error
