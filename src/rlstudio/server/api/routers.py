"""All routes of the API, below `/api/v1`; launching and showing a run also answer at their short addresses."""

from __future__ import annotations

from fastapi import APIRouter

from rlstudio.core.version import __version__
from rlstudio.server.api.routes import (
    catalog,
    experiments,
    files,
    measured,
    models,
    operations,
    prometheus,
    queue,
    runs,
    steering,
    stream,
    sweeps,
)
from rlstudio.server.api.schemas import HealthSchema, MeSchema
from rlstudio.server.http.callers import PUBLIC, Reader

PREFIX = "/api/v1"

server = APIRouter(tags=["server"])


@server.get("/health", dependencies=[PUBLIC], response_model=HealthSchema)
async def health() -> HealthSchema:  # a coroutine: it answers also where every thread is taken
    """Whether the server answers."""
    return HealthSchema(status="ok", version=__version__)


@server.get("/me", response_model=MeSchema)
async def me(caller: Reader) -> MeSchema:
    """Whose token this is, and what it may do."""
    return MeSchema(name=caller.name, role=caller.role)


def routers() -> list[APIRouter]:
    """Of one application, whose `state.service` is a `Service`."""
    versioned = APIRouter(prefix=PREFIX)
    for module in (
        runs,
        steering,
        files,
        measured,
        experiments,
        sweeps,
        models,
        operations,
        queue,
        catalog,
        stream,
        prometheus,
    ):
        versioned.include_router(module.router)
    versioned.include_router(server)
    short = APIRouter(include_in_schema=False)
    short.add_api_route("/healthz", health, methods=["GET"], dependencies=[PUBLIC])
    short.add_api_route("/experiments", experiments.launch, methods=["POST"])
    short.add_api_route("/runs/{ref}", runs.show_run, methods=["GET"])
    return [versioned, short]
