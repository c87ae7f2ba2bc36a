"""How far a listener has come: the id of a server-sent event, from which a stream goes on without loss.

It says where in each run the listener is, and up to when it knows the store. No number of the server is in it, so that
it holds after a restart, and with another server of the same runs folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

LONGEST = 16_384


class RunPosition(NamedTuple):
    metrics: str = ""  # a cursor of the metrics' index
    events: int = 0  # how many
    log: int = 0  # bytes


@dataclass(frozen=True)
class StreamPosition:
    runs: tuple[RunPosition, ...] = ()  # in the order in which they were asked for
    moment: str = ""  # of the newest change in the store, as its rows have it
    lists: dict[str, str] = field(default_factory=dict)  # digests of the queue, the sweeps and the models

    def with_run(self, number: int, place: RunPosition) -> StreamPosition:
        return replace(self, runs=(*self.runs[:number], place, *self.runs[number + 1 :]))

    @cached_property
    def id(self) -> str:
        """As clients send it back. Listeners that are at the same place share one position."""
        return json.dumps([self.moment, self.runs, self.lists], separators=(",", ":"))


def decode(text: str, count: int) -> StreamPosition | None:
    """None where it is none of a stream of so many runs."""
    try:
        moment, given, lists = json.loads(text[:LONGEST])
        runs = tuple(RunPosition(str(metrics), int(events), int(log)) for metrics, events, log in given)
        known = {str(name): str(digest) for name, digest in lists.items()}
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    fits = isinstance(moment, str) and len(runs) == count and all(min(run.events, run.log) >= 0 for run in runs)
    return StreamPosition(runs, moment, known) if fits else None


def encode_event(kind: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def with_id(event: bytes, position: StreamPosition) -> bytes:
    """Each event says where its listener is with it, so that none is sent again and none is left out."""
    return b"id: %b\n" % position.id.encode() + event
