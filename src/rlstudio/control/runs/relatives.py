"""The relatives of a run: the line up to its first ancestor, and everything that was forked from that one."""

from __future__ import annotations

from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.records import RunRow
from rlstudio.core.errors import RunNotFound


def family(store: StoreReader, run: RunRow) -> list[tuple[int, RunRow]]:
    """Depth and run, parents before their children, older children first."""
    root, seen = run, {run.id}
    while root.parent_id is not None and root.parent_id not in seen:
        try:
            root = store.get(root.parent_id)
        except RunNotFound:
            break  # the parent lives in another store
        seen.add(root.id)
    found: list[tuple[int, RunRow]] = []
    _descend(store, root, 0, found, set())
    return found


def _descend(store: StoreReader, run: RunRow, depth: int, found: list[tuple[int, RunRow]], seen: set[str]) -> None:
    if run.id in seen:
        return
    seen.add(run.id)
    found.append((depth, run))
    for child in reversed(store.runs(parent=run.id)):
        _descend(store, child, depth + 1, found, seen)
