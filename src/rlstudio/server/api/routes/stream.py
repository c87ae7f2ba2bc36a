"""What happens, as server-sent events that go on from the last id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from rlstudio.server.api.live.hub import OF_RUNS, TOPICS, StreamListener
from rlstudio.server.api.live.position import LONGEST, decode
from rlstudio.server.api.routes.runs import named_run
from rlstudio.server.api.service import Served
from rlstudio.server.http.callers import Caller, Watcher
from rlstudio.server.http.problems import RequestRefused

QUIET_SECONDS = 10.0
CHECK_SECONDS = 5.0
"""After so long, before the next piece, a stream looks whether its token or session still counts."""

STREAM_SECONDS = 600.0
"""Then the stream ends, and a browser begins it anew where it was."""

MOST_RUNS = 50
MOST_STREAMS = 256

router = APIRouter(tags=["live"])


@router.get(
    "/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events."}},
)
async def stream(
    caller: Watcher,
    service: Served,
    request: Request,
    runs: Annotated[str, Query(max_length=10_000, description="Runs, separated by commas.")] = "",
    topics: Annotated[str, Query(max_length=200, description=f"Of {', '.join(TOPICS)}.")] = "runs",
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", max_length=LONGEST)] = "",
) -> Response:
    """`hello` says where each run is; then `run`, `metrics`, `event`, `log`, `queue`, `sweeps` and `models` as they
    change. `metrics`, `event` and `log` are of the runs that are named, `run` of all where none is named. A client
    that comes back with the id of the last event goes on behind it; `run`, `queue`, `sweeps` and `models` say how
    things are, and may be sent again."""
    wanted = frozenset(topic.strip() for topic in topics.split(",") if topic.strip())
    for topic in sorted(wanted - set(TOPICS)):
        raise _refused("topics", f"{topic[:40]!a} is not a topic; choose from {', '.join(TOPICS)}")
    words = list(dict.fromkeys(word.strip() for word in runs.split(",") if word.strip()))
    if len(words) > MOST_RUNS:
        raise _refused("runs", f"{len(words)} runs are given; listen to at most {MOST_RUNS} at once")
    if wanted & OF_RUNS and not words:
        raise _refused("runs", f"name the runs whose {', '.join(sorted(wanted & OF_RUNS))} are wanted")
    entries = await asyncio.to_thread(lambda: [named_run(service, word) for word in words])
    entries = list({entry.id: entry for entry in entries}.values())
    if service.streams >= MOST_STREAMS:
        raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "too many streams", headers={"Retry-After": "5"})
    position = decode(last_event_id, len(entries)) if last_event_id else None
    listener = StreamListener(entries, wanted, position)
    stopping: asyncio.Event = request.app.state.stopping
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    body = _pieces(service, caller, listener, stopping)
    return StreamingResponse(body, media_type="text/event-stream", headers=headers)


def _refused(field: str, message: str) -> RequestRefused:
    problem = {"field": field, "message": message}
    return RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{field}: {message}", [problem])  # type: ignore[list-item]


async def _pieces(
    service: Served, caller: Caller, listener: StreamListener, stopping: asyncio.Event
) -> AsyncIterator[bytes]:
    until = time.monotonic() + STREAM_SECONDS
    checked = time.monotonic()
    ending = asyncio.create_task(stopping.wait())
    ending.add_done_callback(lambda _: listener.has_piece.set())
    service.streams += 1
    service.hub.add(listener)
    try:
        yield b": RLStudio\n\n"
        while time.monotonic() < until and not stopping.is_set() and not listener.is_over:
            with suppress(TimeoutError):  # a task for each wait would cost more than what is sent
                async with asyncio.timeout(QUIET_SECONDS):
                    await listener.has_piece.wait()
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                if not caller.still_counts():
                    return
            piece, listener.piece = listener.piece, None
            listener.has_piece.clear()
            yield piece if piece is not None else b": \n\n"
    finally:
        service.streams -= 1
        service.hub.remove(listener)
        ending.cancel()
