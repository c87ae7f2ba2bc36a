"""Series of a run for a screen: down-sampled so that the extremes stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rlstudio.control.workspace import Entry
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.analysis.curves import Curve, Points, band_of, finite_points
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import CLOCK, Record
from rlstudio.server.api.answers import Document


def names_of(entry: Entry) -> list[Document]:
    """The metrics of a run with the newest value of each."""
    newest: dict[str, Record] = {}
    counts: dict[str, int] = {}
    for record in _records(entry, None):
        newest[record.key] = record
        counts[record.key] = counts.get(record.key, 0) + 1
    return [
        {"name": name, "kind": _kind(record), "last": record.value, "step": record.step, "count": counts[name]}
        for name, record in sorted(newest.items())
    ]


def _kind(record: Record) -> str:
    return "clock" if CLOCK in record.tags else "metric"


def _records(entry: Entry, names: Sequence[str] | None) -> list[Record]:
    return list(read_metrics(entry.folder.path, names or None)) if entry.has_folder else []


def series_of(
    entry: Entry,
    names: Sequence[str],
    points: int,
    start: int | None,
    to: int | None,
    x: Literal["env_steps", "time"],
    after: str,
) -> Document:
    """`x`, `y` and the times of each point; `low` and `high` where points stand for several values. `next` is to be
    given as `after` for what comes later."""
    if not after.isdecimal() and after:
        raise UserError(f"after: {after!a} is not a `next` of this answer; leave it out")
    every = _records(entry, None)
    done = int(after or 0)
    by_name: dict[str, list[Record]] = {name: [] for name in names}
    for record in every[done:]:
        if (not names or record.key in by_name) and (start is None or record.step >= start):
            if to is None or record.step <= to:
                by_name.setdefault(record.key, []).append(record)
    return {
        "series": {name: _sampled(records, points, x) for name, records in by_name.items()},
        "complete": entry.status.state not in OWNED | {RunState.QUEUED},
        "next": str(len(every)),
    }


def _sampled(records: Sequence[Record], points: int, x: str) -> Document:
    xs = [record.ts if x == "time" else record.step for record in records]
    ys, clock = [record.value for record in records], [record.ts for record in records]
    if len(xs) <= points:
        return {"x": xs, "y": [_number(value) for value in ys], "clock": clock}
    parts = np.array_split(np.arange(len(xs)), points)
    values = np.asarray(ys, np.float64)
    with np.errstate(invalid="ignore"):
        return {
            "x": [xs[int(part[-1])] for part in parts],
            "y": [_number(float(np.mean(values[part]))) for part in parts],
            "low": [_number(float(np.min(values[part]))) for part in parts],
            "high": [_number(float(np.max(values[part]))) for part in parts],
            "clock": [clock[int(part[-1])] for part in parts],
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def group_curve(curve: Curve, points: int) -> Document:
    """A group of runs as one line with its band; each run beside it."""
    series = [finite_points(xs, ys) for xs, ys in curve.runs]
    over = band_of(Curve(curve.label, [run for run in series if len(run[0])]))
    line: Document = {"name": curve.label, "n": len(series)}
    if over is not None:
        picked = _picked(len(over.xs), points)
        line |= {
            "x": over.xs[picked].tolist(),
            "iqm": over.centre[picked].tolist(),
            "low": over.low[picked].tolist(),
            "high": over.high[picked].tolist(),
        }
    else:
        xs, ys = series[0] if series else (np.empty(0), np.empty(0))
        picked = _picked(len(xs), points)
        line |= {"x": xs[picked].tolist(), "iqm": ys[picked].tolist(), "low": None, "high": None}
    return {**line, "runs": [_line(run, points) for run in series]}


def _line(run: Points, points: int) -> Document:
    xs, ys = run
    picked = _picked(len(xs), points)
    return {"x": xs[picked].tolist(), "y": ys[picked].tolist()}


def _picked(count: int, points: int) -> np.ndarray:
    """Which points of a curve are shown: the first, the last, and others evenly between them."""
    return (
        np.unique(np.linspace(0, max(0, count - 1), min(count, points)).round().astype(int))
        if count
        else np.empty(0, int)
    )
