"""A process beside the server that checks, queues and forks experiments: that imports torch and runs the code of
environments, which may print, hang or end its process. The server itself only passes JSON back and forth.

One line in, one line out. The process is started when it is first needed, replaced after a time-out, a crash or
`MOST_TASKS`, and ends by itself once the server is gone, however that ended: its input is closed then.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.host.portable import native_environment
from rlstudio.server.http.problems import FieldProblem, RequestRefused
from rlstudio.storage.folder import Folder, ensure_directory

PROGRAM = "rlstudio.server.api.work.process"
LOG = "server-work.log"
TASK_SECONDS = 300.0
MOST_TASKS = 200
MOST_WAITING = 24
"""Each holds one of the 40 threads that answer requests; the others stay free for those who only look."""
LONGEST_ANSWER = 16 << 20
END_SECONDS = 5.0


class Workbench:
    """May be used by several threads: tasks take turns."""

    def __init__(self, workspace: Workspace, imports: Sequence[str] = (), *, seconds: float = TASK_SECONDS) -> None:
        self._workspace = workspace
        self._imports = tuple(imports)
        self._seconds = seconds
        self._turn = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._process: subprocess.Popen[bytes] | None = None
        self._done = 0
        ensure_directory(workspace.state_dir)
        self._log = Folder(workspace.state_dir).output(
            LOG
        )  # now: later a GET may start the process, and writes nothing

    def do(self, task: str, arguments: Mapping[str, object]) -> Any:
        """The result of a task of `work.tasks`; what it refuses is raised here."""
        if not self._places.acquire(blocking=False):
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{MOST_WAITING} experiments are being tried already; ask again in a moment",
                headers={"Retry-After": "2"},
            )
        try:
            with self._turn:
                line = self._exchange({"task": task, "arguments": arguments})
        finally:
            self._places.release()
        reply = json.loads(line)
        if "refused" in reply:
            refused = reply["refused"]
            problems: list[FieldProblem] = refused["problems"]
            raise RequestRefused(refused["status"], refused["detail"], problems, error=refused["error"])
        return reply["result"]

    def close(self) -> None:
        with self._turn:
            self._end()
            os.close(self._log)

    def _exchange(self, order: Mapping[str, object]) -> bytes:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process)
        except (OSError, TimeoutError) as error:
            self._end(kill=True)
            what = f"took longer than {self._seconds:g} s" if isinstance(error, TimeoutError) else "ended"
            raise RequestRefused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"the process that tries experiments {what} while it tried this one; its environment or algorithm may"
                f" hang or crash: try it with rlctl check, and see {LOG} beside the store",
            ) from error
        self._done += 1
        if self._done >= MOST_TASKS:
            self._end()
        return line

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        descriptor, until, data = process.stdout.fileno(), time.monotonic() + self._seconds, bytearray()
        while not data.endswith(b"\n"):
            if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError
            piece = os.read(descriptor, 1 << 16)
            if not piece or len(data) > LONGEST_ANSWER:
                raise BrokenPipeError
            data += piece
        return bytes(data)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        url = self._workspace.url
        variables = {} if url.startswith("sqlite:") else {DATABASE_VARIABLE: url}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, str(self._workspace.runs_dir), *self._imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C of the server's terminal is the server's
            env={**native_environment(os.environ), **variables},
        )
        self._done = 0
        return self._process

    def _end(self, *, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
