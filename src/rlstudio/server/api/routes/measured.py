"""What runs measured: names, series, CSV, groups side by side, curves with their bands."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import FiniteFloat

from rlstudio.control.runs.looking.curve_documents import group_document
from rlstudio.control.runs.looking.measured import measured_groups
from rlstudio.control.runs.select import select
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import UserError
from rlstudio.experiment.analysis.compare_groups import compare_groups
from rlstudio.experiment.analysis.groups import curve_metric, curves_of
from rlstudio.experiment.metrics.indexed.downsampling import FEWEST_POINTS
from rlstudio.experiment.metrics.indexed.snapshot import Range
from rlstudio.experiment.metrics.tables import MetricTable, NamedRun
from rlstudio.server.api.answers import answer
from rlstudio.server.api.group_schemas import ComparisonSchema, CurvesSchema
from rlstudio.server.api.routes.runs import Ref, named_run
from rlstudio.server.api.schemas import MetricNamesSchema, SeriesSchema
from rlstudio.server.api.series import name_documents, series_document
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader
from rlstudio.server.http.problems import RequestRefused

MOST_POINTS = 10_000
MOST_NAMES = 200
LONGEST_LIST = 20_000
CSV_ROWS = 2000

router = APIRouter(tags=["metrics"])
Points = Annotated[int, Query(ge=FEWEST_POINTS, le=MOST_POINTS, description="At most so many, extremes kept.")]
Listed = Annotated[str, Query(max_length=LONGEST_LIST, description="Separated by commas.")]


@router.get("/runs/{ref}/metrics", response_model=MetricNamesSchema)
def metric_names(caller: Reader, service: Served, ref: Ref) -> Response:
    """The names of the metrics of a run."""
    entry = named_run(service, ref)
    return answer({"names": name_documents(service.measured(entry)), "steps": entry.status.env_steps})


@router.get("/runs/{ref}/series", response_model=SeriesSchema)
def series(
    caller: Reader,
    service: Served,
    ref: Ref,
    names: Listed = "",
    points: Points = 500,
    start: Annotated[FiniteFloat | None, Query(alias="from", description="First step, or second since 1970.")] = None,
    to: Annotated[FiniteFloat | None, Query(description="Last step, or second.")] = None,
    x: Literal["env_steps", "time"] = "env_steps",
    after: Annotated[str, Query(max_length=100, description="`next` of an earlier answer: only what is new.")] = "",
) -> Response:
    """Metrics over steps or time. Of more points than asked for, those that keep the extremes; full buckets stay as
    they are while a run goes on."""
    snapshot, keys = service.measured(named_run(service, ref)), _listed(names, MOST_NAMES) or None
    if after:
        return answer(series_document(snapshot.since(after, keys, points=points), x))
    return answer(series_document(snapshot.series(keys, points=points, within=Range(start, to, x)), x))


@router.get("/runs/{ref}/metrics.csv", response_class=StreamingResponse)
def metrics_csv(caller: Reader, service: Served, ref: Ref, names: Listed = "") -> Response:
    """Every value of a run as CSV: ts, step, key, value, tags."""
    entry = named_run(service, ref)
    service.looking.folder_to_read(entry.id)
    return _csv((entry,), names, entry.id)


@router.get("/metrics.csv", response_class=StreamingResponse)
def metrics_csv_of_runs(caller: Reader, service: Served, runs: Listed, names: Listed = "") -> Response:
    """The metrics of several runs in one CSV table: each row begins with the id, name and seed of its run."""
    entries = _selected(service, runs)
    return _csv([entry for entry in entries if entry.has_folder], names, f"metrics-of-{len(entries)}-runs")


def _csv(entries: Sequence[Entry], names: str, name: str) -> Response:
    runs = tuple(NamedRun(entry.folder.path, entry.id, entry.status.name, entry.status.seed) for entry in entries)
    table = MetricTable(runs, keys=_listed(names, MOST_NAMES) or None)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.csv"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    rows = _csv_rows(table)
    beginning = [next(rows)]  # what cannot be read is refused before the answer begins
    return StreamingResponse(chain(beginning, rows), media_type="text/csv; charset=utf-8", headers=headers)


def _csv_rows(table: MetricTable) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for number, row in enumerate(table.rows()):
        writer.writerow([repr(value) if isinstance(value, float) else value for value in row])
        if number % CSV_ROWS == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


@router.get("/compare", response_model=ComparisonSchema)
def compare(
    caller: Reader,
    service: Served,
    runs: Listed,
    metric: Annotated[str | None, Query(max_length=200)] = None,
    minimize: bool = False,
) -> Response:
    """Groups side by side, as `rlctl compare --json`: a group is the runs that share a name."""
    groups = measured_groups(_selected(service, runs))
    return answer(compare_groups(groups, metric, minimize=minimize).to_json())


@router.get("/curves", response_model=CurvesSchema)
def curves(
    caller: Reader,
    service: Served,
    runs: Listed,
    metric: Annotated[str | None, Query(max_length=200)] = None,
    points: Points = 200,
) -> Response:
    """One learning curve for each group: the interquartile mean of its runs and its 95 % bootstrap band."""
    groups = measured_groups(_selected(service, runs))
    key, notes = curve_metric(groups, metric)
    _, more = curves_of(groups, key)
    drawn = [group_document(group, key, points) for group in groups]
    return answer({"metric": key, "groups": drawn, "notes": [*notes, *more]})


def _selected(service: Service, words: str) -> tuple[Entry, ...]:
    names = _listed(words, MOST_NAMES)
    if not names:
        raise RequestRefused(
            HTTPStatus.UNPROCESSABLE_ENTITY, "runs: names none", [{"field": "runs", "message": "name at least one run"}]
        )
    for name in names:
        if "/" in name or "\0" in name:
            raise UserError(f"runs: {name!a} is not an id, a handle or a name")
    return select(service.looking, names)


def _listed(text: str, most: int) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > most:
        raise UserError(f"{len(names)} names are given; give at most {most}")
    return names
