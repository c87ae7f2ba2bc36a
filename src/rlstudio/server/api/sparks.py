"""Small curves for a list of runs: the return of each, in a few points."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from math import isfinite

import numpy as np

from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RLStudioError
from rlstudio.experiment.analysis.curves import EVALUATION_RETURN, TRAINING_RETURN
from rlstudio.experiment.metrics.indexed.snapshot import MetricSnapshot

MOST_KEPT = 5000
Spark = list[float | None]
Measured = Callable[[Entry], MetricSnapshot]


class Sparks:
    """Kept as long as a run stays where it is. May be used by several threads."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], Spark] = OrderedDict()

    def of(self, entry: Entry, points: int) -> Spark:
        """The training return, or the evaluation return where it has none; empty where it has neither."""
        key = (entry.id, entry.status.env_steps, points)  # what a run has measured changes with its steps
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        values = self._values(entry, points)
        with self._lock:
            self._kept[key] = values
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return values

    def _values(self, entry: Entry, points: int) -> Spark:
        try:
            snapshot = self._measured(entry)
        except RLStudioError:  # a folder that cannot be read; showing the run says why
            return []
        for name in (TRAINING_RETURN, EVALUATION_RETURN):
            values = snapshot.points(name).values
            if len(values):
                picked = np.linspace(0, len(values) - 1, min(points, len(values))).round().astype(int)
                return [value if isfinite(value) else None for value in values[picked].tolist()]
        return []
