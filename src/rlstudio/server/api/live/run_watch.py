"""One run, read once for all who listen to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RLStudioError
from rlstudio.experiment.folder.run_folder import EVENTS, RunFolder
from rlstudio.experiment.metrics.indexed.shelf import MetricShelf
from rlstudio.experiment.metrics.indexed.snapshot import MetricSnapshot
from rlstudio.experiment.metrics.records import CURRENT
from rlstudio.server.api.answers import Document, encoded
from rlstudio.server.api.live.position import RunPosition, encode_event
from rlstudio.server.api.run_files import events_of, log_piece
from rlstudio.server.api.series import series_document

MOST_POINTS = 2000
"""Of a metric, in one event. Who is further behind gets the whole curve, down-sampled."""

MOST_LOG = 1 << 16
"""Bytes of the log in one event; the rest comes with the next one."""

Encoded = tuple[bytes, str | int]
"""An event, and where in its topic a listener is with it."""

Stamp = tuple[int, int, int] | None


class RunWatch:
    """`look` reads what is new; `since` encodes it for a listener, once for all who are at the same place."""

    def __init__(self, entry: Entry, shelf: MetricShelf) -> None:
        self.id = entry.id
        self._entry = entry
        self._shelf = shelf
        self._stamps: dict[str, Stamp] = {}
        self._snapshot: MetricSnapshot | None = None
        self._events: list[Document] = []
        self._log_size = 0
        self._encoded: dict[tuple[str, str | int], list[Encoded]] = {}

    def look(self) -> None:
        """Files that are as they were are not opened. What was encoded is for the listeners of one look: places are
        what clients send, and could be any number of them."""
        folder = self._entry.folder
        self._encoded = {}
        try:
            if self._has_changed(folder, CURRENT) or self._snapshot is None:
                self._snapshot = self._shelf.snapshot(folder.path) if self._entry.has_folder else None
            if self._has_changed(folder, EVENTS):
                self._events = list(events_of(self._entry, 0))
            if self._has_changed(folder, folder.log_path.name):
                self._log_size = folder.log_path.stat().st_size
        except (RLStudioError, OSError):  # removed meanwhile; the list of runs tells
            return

    def _has_changed(self, folder: RunFolder, name: str) -> bool:
        try:
            status = os.stat(folder.path / name, follow_symlinks=False)
            stamp: Stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            stamp = None
        changed = self._stamps.get(name) != stamp
        self._stamps[name] = stamp
        return changed

    @property
    def position(self) -> RunPosition:
        """The end of what there is."""
        return RunPosition(self._cursor, len(self._events), self._log_size)

    @property
    def _cursor(self) -> str:
        return "" if self._snapshot is None else self._snapshot.cursor

    def since(self, topics: frozenset[str], place: RunPosition) -> Iterator[tuple[bytes, RunPosition]]:
        """What came after a place: events, each with the place behind it."""
        if "metrics" in topics and place.metrics != self._cursor:
            for event, cursor in self._once("metrics", place.metrics, partial(self._metrics, place.metrics)):
                place = place._replace(metrics=str(cursor))
                yield event, place
        if "events" in topics and place.events != len(self._events):
            for event, count in self._once("events", place.events, partial(self._more_events, place.events)):
                place = place._replace(events=int(count))
                yield event, place
        if "log" in topics and place.log != self._log_size:
            for event, size in self._once("log", place.log, partial(self._more_log, place.log)):
                place = place._replace(log=int(size))
                yield event, place

    def _once(self, topic: str, place: str | int, encode: Callable[[], Iterator[Encoded]]) -> list[Encoded]:
        key = (topic, place)
        if key not in self._encoded:
            self._encoded[key] = list(encode())
        return self._encoded[key]

    def _metrics(self, cursor: str) -> Iterator[Encoded]:
        if self._snapshot is not None:
            series = self._snapshot.since(cursor, points=MOST_POINTS)
            document = {"run": self.id, "after": cursor, **series_document(series, "env_steps")}
            yield encode_event("metrics", encoded(document)), series.next

    def _more_events(self, count: int) -> Iterator[Encoded]:
        first = count if count <= len(self._events) else 0  # its file was replaced by a shorter one
        for number, event in enumerate(self._events[first:], start=first + 1):
            yield encode_event("event", encoded({"run": self.id, **event})), number

    def _more_log(self, offset: int) -> Iterator[Encoded]:
        start = offset if offset <= self._log_size else 0
        piece = log_piece(self._entry, start, MOST_LOG)
        if piece["text"]:
            yield encode_event("log", encoded({"run": self.id, **piece})), int(piece["end"])
