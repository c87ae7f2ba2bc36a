"""What a rank other than 0 does: whatever rank 0 says, until it says that this is the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rlstudio.core.contracts import Runtime, Segment, State, Trainer, WarmsUp
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.scale.ranks.commands import Command, Order, receive
from rlstudio.scale.ranks.group import RankGroup, averaged
from rlstudio.scale.ranks.messages import decode_whole, encode, segments_of
from rlstudio.scale.ranks.shared import digest, load, own_state
from rlstudio.scale.ranks.tallies import to_state


class Parts(NamedTuple):
    runtime: Runtime
    trainer: Trainer


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


def _do(command: Command, trainer: Trainer, group: RankGroup) -> None:
    match command.order:
        case Order.STEP:
            trainer.progress(command.fraction)
            averaged(trainer.train_step(), group)
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
