"""The queue: what runs, what waits in which order, what is paused, and which workers serve it. It only looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlstudio.control.queue.scheduler import in_order
from rlstudio.control.runs.looking.documents import Document, entry_document
from rlstudio.control.store.workers import KnownWorker, Workers
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.run_state import OWNED, RunState


@dataclass(frozen=True)
class QueueView:
    running: list[Entry]
    queued: list[Entry]  # in the order in which they start
    paused: list[Entry]
    not_recorded: list[Entry]  # their processes are gone, which the store does not say yet
    workers: list[KnownWorker]

    def document(self, row: Callable[[Entry], Document] = entry_document) -> Document:
        """As JSON. `row`: a run of it."""
        lists = {
            "running": self.running,
            "queued": self.queued,
            "paused": self.paused,
            "not_recorded": self.not_recorded,
        }
        served = [
            {
                "id": worker.id,
                "host": worker.process.host,
                "pid": worker.process.pid,
                "cpus": worker.cpus,
                "gpus": worker.gpus,
                "memory_mb": worker.memory_mb,
                "steps_per_second": worker.throughput,
            }
            for worker in self.workers
        ]
        return {
            **{name: [row(entry) for entry in entries] for name, entries in lists.items()},
            "workers": served,
        }


def queue_view(workspace: Workspace) -> QueueView:
    entries = workspace.entries(states=OWNED | {RunState.QUEUED})
    running = [entry for entry in entries if entry.status.state in OWNED]
    queued = {entry.id: entry for entry in entries if entry.status.state == RunState.QUEUED}
    order = in_order(
        [entry.run for entry in queued.values() if entry.run], [entry.run for entry in running if entry.run]
    )
    return QueueView(
        running,
        [queued[run.id] for run in order],
        [] if workspace.is_empty else [workspace.entry(run) for run in workspace.records.paused()],
        [entry for entry in entries if not entry.recorded],
        [] if workspace.is_empty else Workers(workspace.records.database).listed(),
    )
