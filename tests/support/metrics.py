"""Metrics of two runs compared."""

from itertools import zip_longest
from pathlib import Path

from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import CLOCK


def first_difference(one: Path, other: Path) -> str | None:
    """Where the metrics of two runs part, ignoring time stamps and values tagged `clock`; None when they agree."""
    mine, yours = ([record for record in read_metrics(run_dir) if CLOCK not in record.tags] for run_dir in (one, other))
    for number, (a, b) in enumerate(zip_longest(mine, yours)):
        # repr: a NaN equals a NaN, and 0.0 is not -0.0
        if a is None or b is None or repr(a[1:]) != repr(b[1:]):
            return f"record {number}: {a} against {b}"
    return None
