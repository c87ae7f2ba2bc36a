"""The application that a server runs: routes, around them what guards every request.

    router = APIRouter(prefix="/api/v1")

    @router.get("/runs/{ref}")
    def show_run(ref: str, caller: Reader) -> ...: ...       # `Reader`, `Actor` or `PUBLIC`: see callers.py

    app = create_app(router, title="RLStudio", access=Access(Tokens(state_dir)), hosts={"127.0.0.1:8710"})

- A route states who may call it, by `Reader`, `Actor` or `PUBLIC`; one that does not is refused here, at the start.
- A route gets a body of at most `Limits.body` bytes, complete, from a caller who may call it. `caller.name` and
  `caller.role` say who that is; `caller.key` is the Idempotency-Key, made unique to the caller and the route.
- It raises what the functions below it raise: `UserError` and its kin become problem+json with a status
  (problems.STATUS_OF), paths cut to their last part; `RequestRefused(status, detail, problems)` says anything else.
  Anything that is no RLStudioError is a defect: 500 with a number, which the operator's line has too.
- `app.state.stopping` is an asyncio.Event that is set when the server ends: an event
  stream ends with it.
- Every answer gets nosniff, a Content-Security-Policy and `Cache-Control: no-store`, unless the route sets its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException

from rlstudio.core.errors import RLStudioError
from rlstudio.core.version import __version__
from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import Authenticated, Public, Reader, decision_of
from rlstudio.server.http.guard import Guard
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.openapi import describe_guard
from rlstudio.server.http.problems import ProblemDocument, RequestRefused, refusal_of
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.records.recorder import ChangeRecorder
from rlstudio.server.http.records.replies import Replies

REFUSALS = (RequestRefused, RequestValidationError, HTTPException, RLStudioError)


def create_app(
    *routers: APIRouter,
    title: str,
    access: Access,
    hosts: Collection[str],
    limits: Limits | None = None,
    complain: Callable[[str], None] = lambda text: None,
    observe: Callable[[str, int], None] = lambda route, status: None,
    state_dir: Path | None = None,
    openapi_path: str | None = None,
) -> FastAPI:
    """`hosts`: the names that clients may call it by, with the port. `observe` gets the route and status of each
    answer, `other` where it was refused before a route was looked for. With `state_dir` changes are recorded there: who
    made them, and the answers that belong to an Idempotency-Key."""
    app = FastAPI(
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses={"4XX": {"model": ProblemDocument, "description": "The request is refused."}},
    )
    for kind in REFUSALS:
        app.add_exception_handler(kind, _refuse)
    for router in routers:
        app.include_router(router)
    if openapi_path is not None:
        app.include_router(_openapi_route(app, openapi_path))
    app.state.stopping = asyncio.Event()
    decided = {(method, path): decision for path, method, decision in decisions(app)}
    public = {route for route, decision in decided.items() if isinstance(decision, Public)}
    describe_guard(app, public)
    if state_dir is not None:
        app.add_middleware(ChangeRecorder, audit=AuditLog(state_dir), replies=Replies(state_dir))
    app.add_middleware(
        Guard,
        access=access,
        hosts=hosts,
        public=public,
        watching={route for route, decision in decided.items() if not decision.is_use},
        limits=limits or Limits(),
        complain=complain,
        observe=observe,
    )
    return app


def _openapi_route(app: FastAPI, path: str) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get(path)
    def show_openapi(caller: Reader) -> dict[str, Any]:
        return app.openapi()

    return router


def decisions(app: FastAPI) -> Iterator[tuple[str, str, Authenticated | Public]]:
    """Every path and method with its decision about callers; a route without one is refused."""
    for context in iter_route_contexts(app.routes):
        path = context.path or "?"
        decision = decision_of(context.dependant) if isinstance(context.original_route, APIRoute) else None
        if decision is None:
            raise TypeError(f"route {path}: does not say who may call it; give it Reader, Actor or PUBLIC")
        if isinstance(decision, Public) and "{" in path:
            raise TypeError(f"route {path}: is public, so its path may have no parameters")
        for method in sorted(context.methods or ()):
            yield path, method, decision


def _refuse(request: Request, error: Exception) -> Response:
    refused = refusal_of(error)
    assert refused is not None  # only what can be refused is given here
    return refused.response()
