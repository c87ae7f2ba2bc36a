"""Sweeps: list and show."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from rlstudio.control.sweep.report import summary_of
from rlstudio.server.api.answers import answer, unknown_is_404
from rlstudio.server.api.lists import sweep_etag, sweeps_document
from rlstudio.server.api.schemas import SweepPageSchema, SweepSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

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
