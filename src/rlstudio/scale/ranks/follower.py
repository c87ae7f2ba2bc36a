"""A rank other than 0: its process, and what it does there, which is whatever rank 0 says until it says END."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.contracts import Runtime, Segment, State, Trainer, WarmsUp
from rlstudio.core.errors import message_of, traceback_of
from rlstudio.core.host.process_exit import leave
from rlstudio.core.host.trace import TRACE
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.data.collect.tallies import to_state
from rlstudio.scale.ranks.commands import Command, Order, receive
from rlstudio.scale.ranks.group import RankGroup, averaged
from rlstudio.scale.ranks.lifeline import end_with
from rlstudio.scale.ranks.link import LOOPBACK, Link, announce, announced, file_store, store_of_rank_0
from rlstudio.scale.ranks.messages import decode_whole, encode, segments_of
from rlstudio.scale.ranks.shared import digest, load, own_state

LONGEST_TRACEBACK = 8_000
"""Characters: with its message it fits into a pipe, so that nobody has to read while it is written."""


class Parts(NamedTuple):
    runtime: Runtime
    trainer: Trainer


Build = Callable[[RankGroup, State], Parts]


class Given(NamedTuple):
    """The argument of the process: of `children.rank_arguments` or `ray_actor.RankOnNode`."""

    rank: int
    size: int
    lifeline: int
    report: int
    nccl: bool
    folder: str = ""  # where ranks of one machine meet, or
    meeting: str = ""  # HOST:PORT of the store of rank 0
    host: str = LOOPBACK  # the address that this rank listens on


def serve(argument: str, build: Build) -> int:
    """A rank that rank 0 has started. Signals that stop a run are for rank 0, which has this rank save its part."""
    given = Given(**json.loads(argument))
    ignore_stops()
    end_with(given.lifeline)

    try:
        group = RankGroup(given.rank, given.size, lambda: _meet(given))
        follow(group, lambda plan: build(group, plan))
    except BaseException as error:
        traceback = traceback_of(error)[-LONGEST_TRACEBACK:]
        report = {"kind": type(error).__name__, "message": message_of(error), "traceback": traceback}
        with suppress(OSError):  # rank 0 is gone
            os.write(given.report, json.dumps(report).encode())
        leave(1)  # at once: other ranks wait for this one, and notice by its connection
    return 0


def _meet(given: Given) -> Link:
    if given.meeting:
        store = store_of_rank_0(given.meeting, given.rank)
    else:
        store = file_store(Path(given.folder), given.size)
        announce(Path(given.folder), given.rank)
        while not announced(Path(given.folder), 0):  # until all are there: connecting has less patience than starting
            time.sleep(0.01)
    return Link(store, given.rank, given.size, host=given.host, nccl=given.nccl)


def ignore_stops() -> None:
    """By handlers that do nothing: what this process starts does not inherit them."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda number, frame: None)


def follow(group: RankGroup, build: Callable[[State], Parts]) -> None:
    """`build` makes the parts of this rank from the plan of rank 0, as often as that wants others."""
    link, parts = group.link, None
    segments: dict[str, Segment] = {}  # of the last state that was asked for
    while (command := receive(link)).order != Order.END:
        if command.order == Order.BUILD:
            assert command.content is not None
            parts = build(command.content)
            OWN_METRICS.start({})
            link.answer(b"")
            continue
        assert parts is not None, "BUILD comes first"
        if command.order == Order.STATE:
            state = {"parts": own_state(parts.trainer), "logged": OWN_METRICS.open_sums()}
            segments = segments_of(state)
            link.answer(encode({**state, "exact": parts.runtime.exact}))
        elif command.order == Order.SEGMENT:
            assert command.content is not None
            is_mine = command.number == group.rank
            link.share_bytes(encode(segments[command.content["name"]].columns()) if is_mine else None, command.number)
        else:
            _do(command, parts.trainer, group)
    TRACE.stop()


def _do(command: Command, trainer: Trainer, group: RankGroup) -> None:
    match command.order:
        case Order.STEP:
            trainer.progress(command.fraction)
            started = time.perf_counter()
            averaged(trainer.train_step(), group)
            TRACE.span("train step", started)
        case Order.WARM_UP:
            trainer.progress(command.fraction)
            source = trainer.source
            assert isinstance(source, WarmsUp)
            source.warm_up(command.number)
        case Order.TAKE:
            tally = to_state(trainer.source.take())
            logged = OWN_METRICS.open_sums()
            OWN_METRICS.start({})
            group.link.answer(encode({"tally": tally, "logged": logged, "digest": digest(trainer)}))
        case Order.LOAD:
            load(trainer, command.content or {})
        case Order.LOAD_OWN:
            states = [group.link.share_bytes(None) for _ in range(1, group.size)]
            state = decode_whole(states[group.rank - 1])
            load(trainer, state["parts"])
            OWN_METRICS.start(state["logged"])
