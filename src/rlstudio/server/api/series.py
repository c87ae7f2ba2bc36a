"""Series of runs for a screen, down-sampled so that the extremes stay."""

from __future__ import annotations

import numpy as np

from rlstudio.experiment.analysis.curves import Curve, Floats, Points, band_of
from rlstudio.experiment.analysis.groups import MeasuredGroup
from rlstudio.experiment.metrics.indexed.downsampling import kept_points
from rlstudio.experiment.metrics.indexed.snapshot import Axis, MetricPoints, MetricSeries, MetricSnapshot
from rlstudio.server.api.answers import Document


def name_documents(snapshot: MetricSnapshot) -> list[Document]:
    """The metrics of a run with the newest value of each."""
    return [vars(name) for name in snapshot.names()]


def series_document(series: MetricSeries, x: Axis) -> Document:
    """`complete`: these are the whole curves, in the place of what was there; otherwise only what is new."""
    return {
        "series": {name: _curve(points, x) for name, points in series.points.items()},
        "complete": series.complete,
        "next": series.next,
    }


def _curve(points: MetricPoints, x: Axis) -> Document:
    clock = points.clock.tolist()
    return {"x": clock if x == "time" else points.steps.tolist(), "y": points.values.tolist(), "clock": clock}


def group_document(group: MeasuredGroup, metric: str, points: int) -> Document:
    """A group of runs as one line with its band, and each run beside it. One run has no band."""
    runs = group.with_metric(metric)
    series = [run.points(metric) for run in runs]
    over = band_of(Curve(group.label, series))
    if over is None:
        xs, ys = series[0] if series else (np.empty(0), np.empty(0))
        line: Document = {**_thinned({"x": xs, "iqm": ys}, ys, points), "low": None, "high": None}
    else:
        line = _thinned({"x": over.xs, "iqm": over.centre, "low": over.low, "high": over.high}, over.centre, points)
    each = [
        {"id": run.status.id, "seed": run.status.seed, **_line(one, points)}
        for run, one in zip(runs, series, strict=True)
    ]
    return {"name": group.label, "n": len(runs), **line, "runs": each}


def _line(run: Points, points: int) -> Document:
    xs, ys = run
    return _thinned({"x": xs, "y": ys}, ys, points)


def _thinned(columns: dict[str, Floats], by: Floats, points: int) -> Document:
    """The same points of every column: those that keep the extremes of one."""
    kept = kept_points(by, np.arange(len(by), dtype=np.int64), points)
    return {name: column[kept].tolist() for name, column in columns.items()}
