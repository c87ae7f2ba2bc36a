"""The queue: what runs, what waits in which order, and who serves it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from rlstudio.control.queue.queue_document import queue_view
from rlstudio.server.api.answers import Document, answer, run_row
from rlstudio.server.api.schemas import QueueSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

router = APIRouter(tags=["queue"])


@router.get("/queue", response_model=QueueSchema)
def show_queue(caller: Reader, service: Served) -> Response:
    """`queued` is in the order in which runs start, each with its `position` from 1."""
    return answer(queue_document(service))


def queue_document(service: Service) -> Document:
    view, references = queue_view(service.looking), service.listing.references()
    lists = {"running": view.running, "queued": view.queued, "paused": view.paused, "not_recorded": view.not_recorded}
    documents = {name: [run_row(entry, references) for entry in entries] for name, entries in lists.items()}
    for position, document in enumerate(documents["queued"], start=1):
        document["position"] = position
    workers = [
        {
            "id": worker.id,
            "host": worker.process.host,
            "pid": worker.process.pid,
            "cpus": worker.cpus,
            "gpus": worker.gpus,
            "memory_mb": worker.memory_mb,
            "throughput": worker.throughput,
        }
        for worker in view.workers
    ]
    slots = {name: sum(getattr(worker, name) for worker in view.workers) for name in ("cpus", "gpus", "memory_mb")}
    return {**documents, "workers": workers, "slots": slots}
