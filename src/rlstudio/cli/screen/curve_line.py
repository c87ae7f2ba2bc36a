"""The returns of a run in one line of small bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry

WIDTH = 40
"""Characters of bars."""


def curve_line(entry: Entry) -> str:
    """Of its evaluations, or, where there are too few, of its training episodes; empty where there are few of both."""
    from rlstudio.experiment.analysis.curves import EVALUATION_RETURN, TRAINING_RETURN
    from rlstudio.experiment.analysis.groups import FEWEST_EVALUATIONS
    from rlstudio.experiment.metrics.indexed.index import read_series

    if not entry.has_folder:
        return ""
    series = read_series(entry.folder.path, (EVALUATION_RETURN, TRAINING_RETURN))
    curves = {key: [value for value in values if math.isfinite(value)] for key, (_, values) in series.items()}
    metric = EVALUATION_RETURN
    if len(curves.get(metric, ())) < FEWEST_EVALUATIONS:
        metric = TRAINING_RETURN
    values = curves.get(metric, [])
    if len(values) < FEWEST_EVALUATIONS:
        return ""
    kept = values[:: math.ceil(len(values) / WIDTH)]
    return f"{text.sparkline(kept, WIDTH)}  {text.number(values[0])} to {text.number(values[-1])} ({metric})"
