"""Children: the ranks that rank 0 has started on its own machine, as it has them: started, watched and ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.errors import RankLost
from rlstudio.core.host.process import is_stopped
from rlstudio.scale.ranks.link import CLOSING, Link, announce, announced, file_store, within
from rlstudio.scale.ranks.starting.failure import error_of

START_SECONDS = 300.0
"""Importing everything takes a few seconds, and minutes on an overloaded machine: 120 s were too few for a run of low
priority beside sixteen others on two cores. A rank that ends instead is noticed at once."""

STOPPED_SECONDS = 5.0
"""A rank that is stopped (SIGSTOP) for so long while rank 0 waits for it is not waited for."""

END_SECONDS = 2.0
"""How long ranks that were asked to end may take, all of them together."""

CAUSE_SECONDS = 2.0
"""How long a rank whose connection is gone may take to end, and to say why."""


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    lifeline: int  # closed with this process, and then the child ends
    report: int  # what it failed by


class Children:
    """`module` is what they run, with the arguments of `rank_arguments`. `patience`: for so many seconds rank 0 waits
    in one operation for the others."""

    def __init__(self, module: str, size: int, patience: float, *, nccl: bool = False) -> None:
        self._module, self._size, self._patience, self._nccl = module, size, patience, nccl
        self._children: list[_Child] = []
        self._error: Exception | None = None
        self._folders: list[Path] = []
        self._going = 0.0  # how long rank 0 had waited when it last saw all of them going

    @property
    def processes(self) -> Sequence[subprocess.Popen[bytes]]:
        return [child.process for child in self._children]

    def meet(self) -> Link:
        """Start them and connect to them. Their meeting point is a file in a folder of this user's own, which is gone
        once they have met; they listen on the loopback address alone. NCCL looks into the file only with the first
        tensor."""
        folder = Path(tempfile.mkdtemp(prefix="rlstudio-ranks-"))
        self._folders.append(folder)
        try:
            for rank in range(1, self._size):
                self._children.append(self._started(rank, folder))
            self._wait_for_all(folder)
            announce(folder, 0)
            store = file_store(folder, self._size)
            timeout = timedelta(seconds=self._patience) + CLOSING
            link = Link(store, 0, self._size, nccl=self._nccl, timeout=timeout, check=self.check, failure=self._cause)
        except BaseException:
            self.end(asked=False)
            raise
        if not self._nccl:
            self._remove_folders()
        return link

    def _remove_folders(self) -> None:
        while self._folders:
            shutil.rmtree(self._folders.pop(), ignore_errors=True)

    def _started(self, rank: int, folder: Path) -> _Child:
        theirs, lifeline = os.pipe()
        report, reported = os.pipe()
        fds = (theirs, reported)
        # Their environment: our import path, since they share nothing else of ours.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        arguments = rank_arguments(rank, self._size, folder, *fds, nccl=self._nccl)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, *arguments],
                pass_fds=fds,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,  # what an environment prints must not end up in the program's own output
                start_new_session=True,  # Ctrl-C in the terminal is for rank 0 alone
            )
        finally:
            for number in fds:
                os.close(number)
        return _Child(process, lifeline, report)

    def _wait_for_all(self, folder: Path) -> None:
        until = time.monotonic() + START_SECONDS
        for rank in range(1, self._size):
            while not announced(folder, rank):
                if (error := self._failure()) is not None:
                    raise error
                if time.monotonic() >= until:
                    raise RankLost(f"rank {rank} did not start within {START_SECONDS:g} s")
                time.sleep(0.01)

    # -- while they work ----------------------------------------------------------------------------------------------

    def check(self, waited: float) -> None:
        """Raise where one of them is gone, stopped, or has not come to an operation for too long."""
        if (error := self._failure()) is not None:
            raise error
        stopped = [rank for rank, child in enumerate(self._children, 1) if is_stopped(child.process.pid)]
        if not stopped or waited < self._going:  # which is of an earlier operation
            self._going = waited
        elif waited - self._going >= STOPPED_SECONDS:
            pid = self._children[stopped[0] - 1].process.pid
            raise RankLost(f"rank {stopped[0]} (process {pid}) is stopped (SIGSTOP); resume the run to go on")
        within(self._patience, waited)

    def _cause(self) -> Exception | None:
        """Why a connection was lost, as soon as it is known."""
        until = time.monotonic() + CAUSE_SECONDS
        while (error := self._failure()) is None and time.monotonic() < until:
            time.sleep(0.01)
        return error

    def _failure(self) -> Exception | None:
        """What ended one of them. Others end by losing that one, which is no cause."""
        for rank, child in enumerate(self._children, 1):
            if self._error is None and child.process.poll() is not None:
                error = _error_of(rank, child)
                self._error = None if isinstance(error, RankLost) and error.is_consequence else error
        return self._error

    def end(self, asked: bool) -> None:
        """Those that were asked to end get a moment for it. Again: nothing."""
        until = time.monotonic() + (END_SECONDS if asked else 0.0)
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(until - time.monotonic(), 0.0))
            child.process.kill()
            child.process.wait()
            os.close(child.lifeline)
            os.close(child.report)
        self._children = []
        self._remove_folders()


def rank_arguments(rank: int, size: int, folder: Path, lifeline: int, report: int, *, nccl: bool) -> list[str]:
    """What the process of a rank is given; `follower.Given` reads it."""
    return [
        json.dumps(
            {"rank": rank, "size": size, "folder": str(folder), "lifeline": lifeline, "report": report, "nccl": nccl}
        )
    ]


def _error_of(rank: int, child: _Child) -> Exception:
    report = b""
    os.set_blocking(child.report, False)
    with suppress(BlockingIOError):
        while piece := os.read(child.report, 1 << 16):
            report += piece
    return error_of(rank, f"process {child.process.pid}", child.process.returncode, report)
