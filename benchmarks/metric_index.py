"""How long a look at a long run takes, with the index of its metrics: `python -m benchmarks.metric_index`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.page import table
from rlstudio.experiment.metrics.indexed.shelf import MetricShelf
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.writer import MetricsWriter

METRICS = 20
LOOKS = 40
POINTS = 500


def seconds(action: Callable[[], object], times: int = 1) -> float:
    """The 95th percentile."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return float(np.percentile(taken, 95))


def measure(values: int, folder: Path) -> list[list[str]]:
    run, cache = folder / "run", folder / "cache"
    run.mkdir()
    writer, drawn = MetricsWriter(run), np.random.default_rng(0).random(values).tolist()
    writer.write(
        [Record(1.7e9 + n, n // METRICS * 128, f"train/m{n % METRICS}", value) for n, value in enumerate(drawn)]
    )
    writer.offset()
    writer.close()
    shelf = MetricShelf(cache)
    first = seconds(lambda: shelf.snapshot(run))
    after_restart = seconds(lambda: MetricShelf(cache).snapshot(run), 5)
    one = seconds(lambda: shelf.snapshot(run).series(["train/m3"], points=POINTS), LOOKS)
    every = seconds(lambda: shelf.snapshot(run).series(points=POINTS), LOOKS)
    names = seconds(lambda: shelf.snapshot(run).names(), LOOKS)
    rows = {
        "the first look": first,
        "the first look after a restart": after_restart,
        f"one of {METRICS} metrics as {POINTS} points": one,
        f"all {METRICS} of them": every,
        "names, last values, counts": names,
    }
    return [[label, f"{value * 1000:,.0f} ms"] for label, value in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metric_index", description="Looks at a long run.")
    parser.add_argument("--values", type=int, default=1_000_000, help="in the run (default: 1,000,000)")
    values = parser.parse_args().values
    with TemporaryDirectory() as folder:
        print(table([f"{values:,} values", "95th percentile"], measure(values, Path(folder))))


if __name__ == "__main__":
    main()
