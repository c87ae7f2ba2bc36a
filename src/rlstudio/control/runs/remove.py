"""Remove runs, one by one or by a policy; never what something refers to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rlstudio.control.lifecycle import ENDED
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import Conflict
from rlstudio.core.run_state import RunState


def remove(workspace: Workspace, entry: Entry) -> None:
    """First from the disk, under the folder's lock, then from the store: a crash in between leaves a run without a
    folder, which removing it again finishes."""
    if entry.has_folder:
        entry.folder.remove()
    if entry.run is not None:
        workspace.store.remove(entry.id)


def refuse_referred(workspace: Workspace, going: Collection[str]) -> None:
    """A run that another one was forked from stays as long as that one does."""
    for run_id in going:
        staying = [child.id for child in workspace.store.runs(parent=run_id) if child.id not in going]
        if staying:
            raise Conflict(f"run {run_id}: {staying[0]} was forked from it; remove that one first, or both together")


@dataclass(frozen=True)
class Policy:
    """Which ended runs may go: all that are not protected by any of these."""

    keep_newest: int = 0
    keep_days: float = 0.0
    states: frozenset[RunState] = frozenset({RunState.FAILED, RunState.CANCELLED})


def prunable(
    workspace: Workspace,
    policy: Policy,
    now: datetime | None = None,
    *,
    needed: Callable[[list[RunRow]], Collection[str]] = lambda runs: (),
) -> list[RunRow]:
    """Runs that the policy gives up and nothing refers to, oldest first; never one that its user paused, which has a
    place in the queue, nor one whose id is among those that `needed` names. Dates only choose; nothing depends on them.
    This only looks: a run whose process is gone counts as what it will be recorded as."""
    oldest_kept = (now or datetime.now(UTC)) - timedelta(days=policy.keep_days)
    entries = [workspace.entry(run) for run in workspace.records.runs()]
    runs = [replace(entry.run, state=entry.status.state) for entry in entries if entry.run]
    kept = {run.id for run in runs[: policy.keep_newest]} | {run.id for run in runs if run.is_paused}
    going = {
        run.id: run
        for run in runs
        if run.id not in kept
        and run.state in ENDED & policy.states
        and datetime.fromisoformat(run.created_at) < oldest_kept
    }
    for run_id in needed(list(going.values())):
        going.pop(run_id)
    # A child that stays keeps its parent, which keeps its own: walk until nothing changes.
    while True:
        parents = {run.parent_id for run in runs if run.id not in going and run.parent_id in going}
        if not parents:
            return sorted(going.values(), key=lambda run: run.seq)
        for parent_id in parents:
            going.pop(str(parent_id))
