"""The queue: what runs, what waits in which order, and who serves it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from rlstudio.control.queue.order import put_first
from rlstudio.control.runs.adopt import known_run
from rlstudio.server.api.answers import answer
from rlstudio.server.api.group_schemas import QueueSchema
from rlstudio.server.api.lists import queue_document
from rlstudio.server.api.routes.experiments import Body
from rlstudio.server.api.routes.runs import LONGEST_WORD, named_run
from rlstudio.server.api.service import Served
from rlstudio.server.http.callers import Actor, Reader

router = APIRouter(tags=["queue"])


@router.get("/queue", response_model=QueueSchema)
def show_queue(caller: Reader, service: Served) -> Response:
    """The queue: `queued` is in the order in which runs start, each with its `position` from 1."""
    return answer(queue_document(service.looking, service.listing))


class OrderBody(Body):
    ids: list[Annotated[str, Field(max_length=LONGEST_WORD)]] = Field(min_length=1, max_length=500)


@router.post("/queue/order", response_model=QueueSchema)
def order(caller: Actor, service: Served, body: OrderBody) -> Response:
    """Start these runs first, in this order; the others keep their order behind them."""
    runs = [known_run(service.acting, named_run(service, ref).id) for ref in dict.fromkeys(body.ids)]
    put_first(service.acting.store.database, [run.id for run in runs])
    return answer(queue_document(service.looking, service.listing))
