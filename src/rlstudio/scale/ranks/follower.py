"""The process of a rank other than 0: how it begins and ends. What it does in between is `follow`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.contracts import State
from rlstudio.core.errors import message_of, traceback_of
from rlstudio.core.host.process_exit import leave
from rlstudio.scale.ranks.beats import Beats, keep_beating
from rlstudio.scale.ranks.follow import Parts, follow
from rlstudio.scale.ranks.group import RankGroup
from rlstudio.scale.ranks.link import Link, file_store

LONGEST_TRACEBACK = 8_000
"""Characters: with its message it fits into a pipe, so that nobody has to read while it is written."""

Build = Callable[[RankGroup, State], Parts]


class Given(NamedTuple):
    """The argument of the process, see `children.rank_arguments`."""

    rank: int
    size: int
    folder: str
    lifeline: int
    report: int
    nccl: bool


def serve(argument: str, build: Build) -> int:
    """A rank that rank 0 has started. Signals that stop a run are for rank 0, which has this rank save its part."""
    given = Given(**json.loads(argument))
    ignore_stops()
    folder = Path(given.folder)
    beats = Beats(folder, given.size)
    keep_beating(beats, given.rank, given.lifeline)

    def meet() -> Link:
        beats.ready[given.rank] = 1
        return Link(file_store(folder, given.size), given.rank, given.size, nccl=given.nccl)

    try:
        run(RankGroup(given.rank, given.size, meet), build)
    except BaseException as error:
        traceback = traceback_of(error)[-LONGEST_TRACEBACK:]
        report = {"kind": type(error).__name__, "message": message_of(error), "traceback": traceback}
        with suppress(OSError):  # rank 0 is gone
            os.write(given.report, json.dumps(report).encode())
        leave(1)  # at once: other ranks wait for this one, and notice by its connection
    return 0


def run(group: RankGroup, build: Build) -> None:
    follow(group, lambda plan: build(group, plan))


def ignore_stops() -> None:
    """By handlers that do nothing: what this process starts does not inherit them."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda number, frame: None)
