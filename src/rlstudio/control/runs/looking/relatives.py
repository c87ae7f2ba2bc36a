"""The relatives of a run: the line up to its first ancestor, and everything that was forked from that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstudio.core.errors import RunNotFound

if TYPE_CHECKING:
    from rlstudio.control.store.reading import StoreReader
    from rlstudio.control.store.records import RunRow


def relatives_of(store: StoreReader, run: RunRow) -> list[tuple[int, RunRow]]:
    """Depth and run, parents before their children, older children first."""
    root, ancestors = run, {run.id}
    while root.parent_id is not None and root.parent_id not in ancestors:
        try:
            root = store.get(root.parent_id)
        except RunNotFound:
            break  # the parent lives in another store
        ancestors.add(root.id)
    tree: list[tuple[int, RunRow]] = []
    _descend(store, root, 0, tree, set())
    return tree


def _descend(store: StoreReader, run: RunRow, depth: int, tree: list[tuple[int, RunRow]], visited: set[str]) -> None:
    if run.id in visited:
        return
    visited.add(run.id)
    tree.append((depth, run))
    for child in reversed(store.runs(parent=run.id)):
        _descend(store, child, depth + 1, tree, visited)
