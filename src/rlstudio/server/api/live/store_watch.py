"""The store, looked at once for all who listen: runs that changed, the queue, sweeps and models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from rlstudio.control.runs.looking.listing import Listing
from rlstudio.control.store.pages import changed_since
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import RLStudioError
from rlstudio.core.run_state import OWNED
from rlstudio.core.timestamps import timestamp
from rlstudio.server.api.answers import encoded, run_row
from rlstudio.server.api.live.position import encode_event

if TYPE_CHECKING:
    from collections.abc import Callable

OVERLAP_SECONDS = 5.0
"""Rows of a server's database may be committed in another order than that of their times."""

EVERY_LOOKS = 10
"""Looks after which the runs that are owned are looked at, also where the store has not changed: a process may be gone
without having recorded it."""


class StoreWatch:
    def __init__(self, workspace: Workspace, listing: Listing, lists: dict[str, Callable[[], object]]) -> None:
        """`lists`: documents by topic that are sent whole when they have changed."""
        self._workspace = workspace
        self._listing = listing
        self._lists = lists
        self._stamp: tuple[int, int, int] | None = None
        self._looks = 0
        self._rows: dict[str, bytes] = {}  # the newest event of each run that changed
        self._ids: set[str] | None = None
        self._owned: list[Entry] = []
        self.moment = timestamp()
        self.changed: dict[str, bytes] = {}  # runs that changed with the last look
        self.documents: dict[str, tuple[str, bytes]] = {}  # the lists: digest and event

    def look(self, topics: frozenset[str]) -> None:
        """What has changed since the last look, of what is listened to."""
        self.changed = {}
        if self._workspace.is_empty:
            return
        try:
            has_changed = self._has_changed()
            self._looks += 1
            if "runs" in topics:
                self._look_at_runs(has_changed)
            for topic in topics & self._lists.keys():
                if has_changed or topic not in self.documents or self._looks % EVERY_LOOKS == 0:
                    data = encoded(self._lists[topic]())
                    self.documents[topic] = (sha256(data).hexdigest()[:16], encode_event(topic, data))
        except RLStudioError:  # the store is away for a while: the next look has what came meanwhile
            self._stamp = None

    def _has_changed(self) -> bool:
        file = self._workspace.store_file
        if file is None:
            return True
        try:
            status = os.stat(file)
        except OSError:
            return True
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        changed, self._stamp = stamp != self._stamp, stamp
        return changed

    def _look_at_runs(self, has_changed: bool) -> None:
        entries = {entry.id: entry for entry in self._refreshed()}
        if has_changed:
            rows = changed_since(self._workspace.records.database, _earlier(self.moment))
            entries |= {run.id: self._workspace.entry(run) for run in rows}
            self.moment = max([self.moment, *(run.updated_at for run in rows)])
            self._owned = [self._workspace.entry(run) for run in self._workspace.records.runs(states=OWNED)]
            self.changed |= self._removed()
        for run_id, event in self._events(entries.values()):
            if self._rows.get(run_id) != event:
                self._rows[run_id] = self.changed[run_id] = event

    def _refreshed(self) -> list[Entry]:
        """Those that a process has, with what it wrote into their folders since."""
        self._owned = [self._workspace.entry(entry.run) for entry in self._owned if entry.run is not None]
        return self._owned

    def _events(self, entries: Iterable[Entry]) -> Iterator[tuple[str, bytes]]:
        references = self._listing.references()
        for entry in entries:
            yield entry.id, encode_event("run", encoded(run_row(entry, references)))

    def _removed(self) -> dict[str, bytes]:
        """Runs that are gone from the store, which is told like a change of theirs."""
        ids = self._workspace.records.ids()
        gone = set() if self._ids is None else self._ids - ids
        self._ids = ids
        for run_id in gone:
            self._rows.pop(run_id, None)
        return {run_id: encode_event("run", encoded({"id": run_id, "removed": True})) for run_id in gone}

    def since(self, moment: str, run_ids: frozenset[str]) -> list[bytes]:
        """Runs that changed after a moment, for a listener who was away; of these ids, or of all."""
        rows = changed_since(self._workspace.records.database, _earlier(moment))
        entries = {run.id: self._workspace.entry(run) for run in rows}
        entries |= {entry.id: entry for entry in self._owned}
        return [event for run_id, event in self._events(entries.values()) if not run_ids or run_id in run_ids]


def _earlier(moment: str) -> str:
    try:
        return timestamp(datetime.fromisoformat(moment) - timedelta(seconds=OVERLAP_SECONDS))
    except (ValueError, OverflowError):
        return ""
