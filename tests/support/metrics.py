"""Metrics of two runs compared."""

from collections.abc import Collection
from itertools import zip_longest
from pathlib import Path

from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import CLOCK


def first_difference(one: Path, other: Path, without: Collection[str] = ()) -> str | None:
    """Where the metrics of two runs part, ignoring time stamps, values tagged `clock` and the metrics of these names;
    None when they agree."""
    mine, yours = (
        [record for record in read_metrics(run_dir) if CLOCK not in record.tags and record.key not in without]
        for run_dir in (one, other)
    )
    for number, (a, b) in enumerate(zip_longest(mine, yours)):
        # repr: a NaN equals a NaN, and 0.0 is not -0.0
        if a is None or b is None or repr(a[1:]) != repr(b[1:]):
            return f"record {number}: {a} against {b}"
    return None
