"""Hub: one task that looks at what is listened to, and hands each listener what is new since its place.

Each look reads a run once, encodes what is new once, and joins it once for all who listen to the same and are at the
same place. A listener that has not taken its last piece gets nothing more until then; it is not lost, since the next
piece begins at its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RLStudioError
from rlstudio.experiment.metrics.indexed.shelf import MetricShelf
from rlstudio.server.api.answers import encoded
from rlstudio.server.api.live.position import RunPosition, StreamPosition, encode_event, with_id
from rlstudio.server.api.live.run_watch import RunWatch
from rlstudio.server.api.live.store_watch import StoreWatch

LOOK_SECONDS = 1.0
"""A point is with every listener within two of them."""

OF_RUNS = frozenset({"metrics", "events", "log"})
LISTS = ("queue", "sweeps", "models")
TOPICS = ("runs", *sorted(OF_RUNS), *LISTS)


class StreamListener:
    """One stream. `position`: how far it was when its connection broke; None for one that begins now."""

    def __init__(self, runs: Sequence[Entry], topics: frozenset[str], position: StreamPosition | None) -> None:
        self.runs = tuple(runs)
        self.run_ids = frozenset(entry.id for entry in runs)
        self.topics = topics
        self.position = position
        self.is_resumed = position is not None
        self.look = 0  # the number of the look that it is up to date with; 0: none yet
        self.is_over = False
        self.piece: bytes | None = None
        self.has_piece = asyncio.Event()

    @property
    def same(self) -> tuple[object, ...]:
        """Equal for those who get the same pieces."""
        place = None if self.position is None else self.position.id
        return tuple(entry.id for entry in self.runs), self.topics, place, self.look, self.is_resumed


class Hub:
    def __init__(self, shelf: MetricShelf, store: StoreWatch, seconds: float = LOOK_SECONDS) -> None:
        self._shelf, self._store, self._seconds = shelf, store, seconds
        self._listeners: set[StreamListener] = set()
        self._watches: dict[str, RunWatch] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._looks = 0

    def add(self, listener: StreamListener) -> None:
        """From the event loop. The first listener starts the looking, and the last one ends it."""
        self._listeners.add(listener)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._end)

    def remove(self, listener: StreamListener) -> None:
        self._listeners.discard(listener)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Whoever still listens was failed by a defect: its stream ends, and it begins anew where it was."""
        for listener in self._listeners:
            listener.is_over = True
            listener.has_piece.set()

    async def _run(self) -> None:
        while self._listeners:
            self._wake.clear()
            waiting = [listener for listener in self._listeners if listener.piece is None]
            pieces = await asyncio.to_thread(self._look, waiting, tuple(self._listeners))
            for listener, piece in pieces:
                listener.piece = piece
                listener.has_piece.set()
            with suppress(TimeoutError):  # a new listener need not wait for the next look
                await asyncio.wait_for(self._wake.wait(), self._seconds)
        self._watches.clear()

    def _look(
        self, waiting: Sequence[StreamListener], listeners: Sequence[StreamListener]
    ) -> list[tuple[StreamListener, bytes]]:
        """In a thread, one look at a time."""
        self._looks += 1
        wanted = {entry.id: entry for each in listeners if each.topics & OF_RUNS for entry in each.runs}
        self._watches = {
            run_id: self._watches.get(run_id) or RunWatch(entry, self._shelf) for run_id, entry in wanted.items()
        }
        for watch in self._watches.values():
            watch.look()
        self._store.look(frozenset().union(*(each.topics for each in listeners)))
        joined: dict[tuple[object, ...], tuple[bytes | None, StreamPosition]] = {}
        pieces = []
        for listener in waiting:
            key = listener.same
            if key not in joined:
                try:
                    joined[key] = self._piece(listener)
                except RLStudioError:  # the store is away for a while, a file is: what is new comes with the next look
                    continue
            piece, listener.position = joined[key]
            listener.look, listener.is_resumed = self._looks, False
            if piece is not None:
                pieces.append((listener, piece))
        return pieces

    def _piece(self, listener: StreamListener) -> tuple[bytes | None, StreamPosition]:
        """What is new for a listener, and where it is then."""
        if listener.position is None:
            position = self._begin(listener)
            hello = {"runs": {run.id: place._asdict() for run, place in zip(listener.runs, position.runs, strict=True)}}
            return with_id(encode_event("hello", encoded(hello)), position), position
        pieces: list[bytes] = []
        position = listener.position
        for number, entry in enumerate(listener.runs):
            watch = self._watches.get(entry.id)
            for event, place in () if watch is None else watch.since(listener.topics, position.runs[number]):
                position = position.with_run(number, place)
                pieces.append(with_id(event, position))
        # Only behind the last of them: who gets some of the runs that changed is sent all of them again.
        pieces += [with_id(event, position) for event in self._changes(listener, position)]
        position = replace(position, moment=self._store.moment)
        for topic in LISTS:
            known = self._store.documents.get(topic)
            if topic in listener.topics and known is not None and known[0] != position.lists.get(topic):
                position = replace(position, lists={**position.lists, topic: known[0]})
                pieces.append(with_id(known[1], position))
        if listener.is_resumed and not pieces:
            pieces = [with_id(encode_event("hello", b'{"resumed":true}'), position)]
        return (b"".join(pieces) or None), position

    def _begin(self, listener: StreamListener) -> StreamPosition:
        watches = [self._watches.get(entry.id) for entry in listener.runs]
        places = tuple(RunPosition() if watch is None else watch.position for watch in watches)
        lists = {topic: self._store.documents[topic][0] for topic in LISTS if topic in self._store.documents}
        return StreamPosition(places, self._store.moment, lists)

    def _changes(self, listener: StreamListener, position: StreamPosition) -> list[bytes]:
        """Runs that changed: those of this look for who was there at the last one, else all since its moment."""
        if "runs" not in listener.topics:
            return []
        if listener.look != self._looks - 1 or listener.is_resumed:
            return self._store.since(position.moment, listener.run_ids)
        changed = self._store.changed
        return [event for run_id, event in changed.items() if not listener.run_ids or run_id in listener.run_ids]
