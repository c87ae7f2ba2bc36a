"""Small curves for a list of runs: the return of each, in a few points."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from math import isfinite

from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RLStudioError
from rlstudio.experiment.analysis.curves import EVALUATION_RETURN, TRAINING_RETURN
from rlstudio.experiment.metrics.reader import read_series

MOST_KEPT = 5000
Spark = list[float | None]

_kept: OrderedDict[tuple[str, int, int], Spark] = OrderedDict()
_lock = threading.Lock()


def sparks(entries: Iterable[Entry], points: int) -> list[Spark]:
    """For each run the training return, or the evaluation return where it has none; empty where it has neither."""
    return [_spark(entry, points) for entry in entries]


def _spark(entry: Entry, points: int) -> Spark:
    key = (entry.id, entry.status.env_steps, points)  # what a run has measured changes with its steps
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    values = _values(entry, points)
    with _lock:
        _kept[key] = values
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return values


def _values(entry: Entry, points: int) -> Spark:
    try:
        series = read_series(entry.folder.path, {TRAINING_RETURN, EVALUATION_RETURN}) if entry.has_folder else {}
    except RLStudioError:
        return []
    _, values = series.get(TRAINING_RETURN) or series.get(EVALUATION_RETURN) or ([], [])
    if len(values) > points:
        values = [values[round(n * (len(values) - 1) / max(1, points - 1))] for n in range(points)]
    return [value if isfinite(value) else None for value in values]
