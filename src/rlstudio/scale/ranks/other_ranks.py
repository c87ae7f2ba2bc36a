"""OtherRanks: what rank 0 has of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import RankLost
from rlstudio.scale.ranks.commands import Command, Order, send
from rlstudio.scale.ranks.group import RankGroup
from rlstudio.scale.ranks.link import Link
from rlstudio.scale.ranks.messages import decode, encode_whole

BUILD_SECONDS = 120.0
"""To import what an experiment needs and to make its environments."""


class OtherRanks:
    """`meet` connects to them when they are first needed, having started them perhaps. `end` makes sure that those
    which were started here are gone; it gets whether they were asked to end. `awaited`: they run already, and wait."""

    def __init__(
        self, size: int, meet: Callable[[], Link], end: Callable[[bool], None], *, awaited: bool = False
    ) -> None:
        self.size = size
        self.group = RankGroup(0, size, meet)
        self.exact: str | None = None  # why a resumed run would not get the same experience in one of them
        self._end = end
        self._is_awaited = awaited
        self._is_out_of_step = False

    @contextmanager
    def doing(self, command: Command) -> Iterator[None]:
        """Around what rank 0 itself does for the command. Left by an error, the ranks stand at different places and
        cannot be asked for anything more."""
        if self._is_out_of_step:
            raise RankLost("the ranks of the run are gone: what it learned since its last checkpoint cannot be saved")
        self._is_out_of_step = True
        send(self.group.link, command)
        yield
        self._is_out_of_step = False

    def answers(self, command: Command) -> list[bytes]:
        """What each of them answers, in the order of the ranks."""
        with self.doing(command):
            link = self.group.link
            link.grace = BUILD_SECONDS if command.order == Order.BUILD else 0.0
            return link.answers()

    def load_own(self, states: list[State]) -> None:
        with self.doing(Command(Order.LOAD_OWN)):
            for state in states:
                self.group.link.share_bytes(encode_whole(state))

    def states(self) -> list[State]:
        """Of their own parts. The columns of a segment are fetched when a checkpoint wants them."""
        return [
            decode(answer, partial(self._columns, rank), prefix_of(rank))
            for rank, answer in enumerate(self.answers(Command(Order.STATE)), 1)
        ]

    def _columns(self, rank: int, name: str) -> dict[str, np.ndarray]:
        with self.doing(Command(Order.SEGMENT, number=rank, content={"name": name})):
            return decode(self.group.link.share_bytes(None, rank))

    def close(self) -> None:
        """Where they cannot be asked any more they end with their connection, or are ended."""
        asked = False
        if (self.group.is_connected or self._is_awaited) and not self._is_out_of_step:
            with suppress(RankLost):
                send(self.group.link, Command(Order.END))
                asked = True
        self._is_out_of_step = True
        try:
            self._end(asked)
        finally:
            self.group.disconnect()


def prefix_of(rank: int) -> str:
    """Of the names of a rank's segments: those of rank 0 are as in a run without ranks."""
    return f"rank-{rank}/"
