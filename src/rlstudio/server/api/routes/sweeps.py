"""Sweeps: list and show."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from rlstudio.control.sweep.report import list_document, summary_of
from rlstudio.control.sweep.sweeps import Sweep, Sweeps
from rlstudio.server.api.answers import answer, unknown_is_404
from rlstudio.server.api.schemas import SweepPageSchema, SweepSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

router = APIRouter(tags=["sweeps"])
SweepName = Annotated[str, Path(max_length=200, description="Name of a sweep.")]


@router.get("/sweeps", response_model=SweepPageSchema)
def list_sweeps(caller: Reader, service: Served) -> Response:
    """All sweeps, newest first."""
    if service.looking.is_empty:
        return answer({"items": []})
    sweeps = Sweeps(service.looking.records.database)
    items = [
        {**list_document(sweep, sweeps.trials(sweep.name)), "created_at": sweep.created_at, "etag": sweep_etag(sweep)}
        for sweep in sweeps.all()
    ]
    return answer({"items": items})


@router.get("/sweeps/{name}", response_model=SweepSchema)
def show_sweep(caller: Reader, service: Served, name: SweepName) -> Response:
    """A sweep with its trials: settings, value, state, seeds, runs; and which settings mattered."""
    return sweep_answer(service, name)


def sweep_answer(service: Service, name: str, status: int = 200) -> Response:
    with unknown_is_404():
        summary = summary_of(service.looking.records, name)
    etag = sweep_etag(summary.sweep)
    return answer({**summary.document(), "etag": etag}, status, etag=etag)


def sweep_etag(sweep: Sweep) -> str:
    """Differs after every change of who drives it, and of its state."""
    return f"{sweep.token}-{sweep.current.lower()}"
