"""Series of runs for a screen, down-sampled so that the extremes stay."""

from __future__ import annotations

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
