"""Lists of runs for a process that stays: pages, and the words that runs are called by, kept as long as they hold.

Rows that no process owns are filtered, sorted and cut by the database (`store.pages`). Those that a process owns, and
run folders that the store does not know, are few: what they are is concluded here, as everywhere (`Workspace.entry`).
It only looks.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sqlalchemy import func, select

from rlstudio.control.references import References
from rlstudio.control.store.pages import RowPlace, RunFilter, RunOrder, run_page
from rlstudio.control.store.schema import runs
from rlstudio.control.workspace import Entry, Workspace

SETTLED_SECONDS = 2.0
"""A folder that changed more recently may change again without its time of change showing it."""


@dataclass(frozen=True)
class RunPage:
    entries: list[Entry]
    total: int  # of all pages
    last: RowPlace | None  # where the next page begins; None where there is none


class Listing:
    """May be used by several threads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._references: tuple[tuple[object, ...], References] | None = None
        self._unlisted_ids: tuple[tuple[object, ...], list[str]] | None = None

    def references(self) -> References:
        """What runs may be called now."""
        stamp = self._stamp()
        with self._lock:
            known = self._references
        if known is not None and stamp is not None and known[0] == stamp:
            return known[1]
        references = self._workspace.references()
        with self._lock:
            self._references = None if stamp is None else (stamp, references)
        return references

    def find(self, ref: str) -> Entry:
        """The one run that a word means, as `Workspace.find`."""
        workspace = self._workspace
        known = [] if workspace.is_empty else workspace.records.runs(ids=[ref])
        return workspace.entry(known[0]) if known else workspace.entries_of([self.references().one_of(ref)])[0]

    def page(self, wanted: RunFilter, order: RunOrder, after: RowPlace | None, limit: int) -> RunPage:
        workspace = self._workspace
        if workspace.is_empty:
            return RunPage([], 0, None)
        rows, count = run_page(workspace.records.database, wanted, order, after, limit + 1)
        others = [workspace.entry(run) for run in rows if run.is_owned] + self._unlisted()
        others = [entry for entry in others if _passes(entry, wanted)]
        behind = [entry for entry in others if order.is_behind(_place(entry, order), after)]
        entries = [workspace.entry(run) for run in rows if not run.is_owned] + behind
        ordered = order.sorted(entries, lambda entry: _place(entry, order))
        total = count + len(others)
        last = _place(ordered[limit - 1], order) if len(ordered) > limit else None
        return RunPage(ordered[:limit], total, last)

    def _unlisted(self) -> list[Entry]:
        """Runs that only their folders know; which they are is looked up again once something was made or removed."""
        stamp = self._stamp()
        with self._lock:
            known = self._unlisted_ids
        if known is not None and stamp is not None and known[0] == stamp and not known[1]:
            return []
        entries = self._workspace.unlisted()
        with self._lock:
            self._unlisted_ids = None if stamp is None else (stamp, [entry.id for entry in entries])
        return entries

    def _stamp(self) -> tuple[object, ...] | None:
        """Differs once a run was made, removed or renamed, in the store or among the folders; None while that cannot be
        told."""
        workspace = self._workspace
        if workspace.is_empty:
            return None
        try:
            changed = workspace.runs_dir.stat().st_mtime_ns
        except OSError:
            changed = 0
        if time.time() - changed / 1e9 < SETTLED_SECONDS:
            return None
        with workspace.records.database.read() as connection:
            count, newest = connection.execute(select(func.count(), func.max(runs.c.seq)).select_from(runs)).one()
        return changed, count, newest


def _place(entry: Entry, order: RunOrder) -> RowPlace:
    source = entry.run if entry.run is not None and not hasattr(entry.status, order.field) else entry.status
    return RowPlace(getattr(source, order.field, None), entry.id)


def _passes(entry: Entry, wanted: RunFilter) -> bool:
    """As the database does it for the others."""
    status, tags = entry.status, () if entry.run is None else entry.run.tags
    note = "" if entry.run is None else entry.run.note
    for values, own in (
        (wanted.states, [status.state]),
        (wanted.envs, [status.env_id]),
        (wanted.algos, [status.algo]),
        (wanted.tags, tags),
    ):
        if values and not {value.lower() for value in values} & {value.lower() for value in own}:
            return False
    if wanted.names and status.name not in wanted.names:
        return False
    if wanted.ids and entry.id not in wanted.ids:
        return False
    words = (entry.id, status.name, status.algo, status.env_id, *tags, note)
    return not wanted.text or any(wanted.text.lower() in word.lower() for word in words)
