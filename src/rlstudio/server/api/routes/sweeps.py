"""Sweeps: list, show, begin, stop, go on with, remove."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field

from rlstudio.control.sweep.ending import remove_sweep, stop_sweep
from rlstudio.control.sweep.report import summary_of
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, SweepState
from rlstudio.core.errors import Changed
from rlstudio.server.api.answers import answer, unknown_is_404
from rlstudio.server.api.group_schemas import SweepPageSchema, SweepSchema
from rlstudio.server.api.lists import sweep_etag, sweeps_document
from rlstudio.server.api.routes.experiments import LONGEST_TEXT, Body, given_text
from rlstudio.server.api.routes.steering import IfMatch, wanted_etag
from rlstudio.server.api.schemas import PresetSchema, ValidatedSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Actor, Reader
from rlstudio.server.http.problems import RequestRefused

router = APIRouter(tags=["sweeps"])
SweepName = Annotated[str, Path(max_length=200, description="Name of a sweep.")]


@router.get("/sweeps", response_model=SweepPageSchema)
def list_sweeps(caller: Reader, service: Served) -> Response:
    """All sweeps, newest first."""
    return answer(sweeps_document(service.looking))


@router.get("/sweeps/{name}", response_model=SweepSchema)
def show_sweep(caller: Reader, service: Served, name: SweepName) -> Response:
    """A sweep with its trials: settings, value, state, seeds, runs; and which settings mattered."""
    return sweep_answer(service, name)


def sweep_answer(service: Service, name: str, status: int = 200) -> Response:
    with unknown_is_404():
        summary = summary_of(service.looking.records, name)
    etag = sweep_etag(summary.sweep)
    return answer({**summary.document(), "etag": etag}, status, etag=etag)


@router.get("/sweeps/{name}/best", response_model=PresetSchema)
def best_trial(caller: Reader, service: Served, name: SweepName) -> Response:
    """The best trial as a complete experiment, to be launched with more seeds."""
    with unknown_is_404():
        summary_of(service.looking.records, name)
    best = service.workbench.do("best", {"name": name})
    if best is None:
        raise RequestRefused(HTTPStatus.NOT_FOUND, f"sweep {name}: no trial has completed yet; ask again when one has")
    return answer({"name": name, **best})


class SweepBody(Body):
    """One of `config`, `yaml` and `preset`."""

    config: dict[str, Any] | None = Field(None, description="A sweep, as in a file.")
    yaml: str | None = Field(None, max_length=LONGEST_TEXT, description="The text of a file.")
    preset: str | None = Field(None, max_length=200, description="The name of one that ships with RLStudio.")
    name: str | None = Field(None, max_length=64, description="What it is called, instead of its own name.")
    max_concurrent: int | None = Field(None, ge=1, le=10_000, description="Runs at the same time.")
    validate_only: bool = Field(False, description="Only say what is wrong with it.")


@router.post(
    "/sweeps",
    status_code=HTTPStatus.CREATED,
    response_model=SweepSchema,
    responses={200: {"model": ValidatedSchema, "description": "validate_only: what is wrong with it, if anything."}},
)
def begin_sweep(caller: Actor, service: Served, body: SweepBody) -> Response:
    """Start a sweep in a process of its own, which goes on when the server ends."""
    overrides = [] if body.name is None else [f"name={json.dumps(body.name)}"]
    asked = {"text": given_text(body.config, body.yaml, body.preset), "overrides": overrides}
    if body.validate_only:
        return answer(service.workbench.do("validate_sweep", asked))
    more = {"max_concurrent": body.max_concurrent, "again": bool(caller.key)}
    name = service.workbench.do("sweep", {**asked, **more})
    return sweep_answer(service, name, HTTPStatus.CREATED)


@router.post("/sweeps/{name}/stop", response_model=SweepSchema)
def stop(caller: Actor, service: Served, name: SweepName, if_match: IfMatch = None) -> Response:
    """Stop a sweep and pause its runs at their next safe points."""
    sweep = _unchanged(service, name, if_match)
    if sweep.state == SweepState.COMPLETED and caller.key:
        return sweep_answer(
            service, name
        )  # the same request again, to a sweep that was done before it could be stopped
    for request in stop_sweep(service.acting, name):
        request.deliver()
    return sweep_answer(service, name)


@router.post("/sweeps/{name}/resume", status_code=HTTPStatus.ACCEPTED, response_model=SweepSchema)
def resume(caller: Actor, service: Served, name: SweepName, if_match: IfMatch = None) -> Response:
    """Continue a sweep with its own settings."""
    sweep = _unchanged(service, name, if_match)
    if not (caller.key and (sweep.is_driven or sweep.state == SweepState.COMPLETED)):
        service.workbench.do("resume_sweep", {"name": name, "max_concurrent": None})
    return sweep_answer(service, name, HTTPStatus.ACCEPTED)


@router.delete("/sweeps/{name}", status_code=HTTPStatus.NO_CONTENT, response_class=Response)
def delete(caller: Actor, service: Served, name: SweepName, if_match: IfMatch = None) -> Response:
    """Delete a sweep that is not running, with all its runs. Versions in the registry stay."""
    _unchanged(service, name, if_match)
    for _ in remove_sweep(service.acting, name):
        pass
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _unchanged(service: Service, name: str, if_match: str | None) -> Sweep:
    """The sweep, if it is still what was looked at. Its token says so again where it is changed."""
    with unknown_is_404():
        sweep = Sweeps(service.looking.records.database).get(name)
    etag = wanted_etag(if_match)
    if etag is not None and etag != sweep_etag(sweep):
        raise Changed(f"sweep {name}: has changed since it was looked at; it is {sweep.current} now")
    return sweep
