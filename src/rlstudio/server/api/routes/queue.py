"""The queue: what runs, what waits in which order, and who serves it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from rlstudio.server.api.answers import answer
from rlstudio.server.api.lists import queue_document
from rlstudio.server.api.schemas import QueueSchema
from rlstudio.server.api.service import Served
from rlstudio.server.http.callers import Reader

router = APIRouter(tags=["queue"])


@router.get("/queue", response_model=QueueSchema)
def show_queue(caller: Reader, service: Served) -> Response:
    """`queued` is in the order in which runs start, each with its `position` from 1."""
    return answer(queue_document(service.looking, service.listing))
