"""Groups of runs as JSON documents of curves: what `rlctl plot --json` prints, and the HTTP API answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstudio.experiment.analysis.curves import Curve, Floats, Points, band_of
from rlstudio.experiment.analysis.groups import MeasuredGroup
from rlstudio.experiment.metrics.indexed.downsampling import kept_points

Document = dict[str, Any]


def group_document(group: MeasuredGroup, metric: str, points: int | None = None) -> Document:
    """A group of runs as one line with its band, and each run beside it. One run has no band. `points`: of a line, at
    most; None: all of them."""
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


def _line(run: Points, points: int | None) -> Document:
    xs, ys = run
    return _thinned({"x": xs, "y": ys}, ys, points)


def _thinned(columns: dict[str, Floats], by: Floats, points: int | None) -> Document:
    """The same points of every column: those that keep the extremes of one."""
    every = np.arange(len(by), dtype=np.int64)
    kept = every if points is None else kept_points(by, every, points)
    return {name: column[kept].tolist() for name, column in columns.items()}
