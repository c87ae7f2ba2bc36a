"""Tables of cases that are trained on several seeds: what is stored of them, and training of what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.learning import append, read_store

Case = TypeVar("Case")
Line = dict[str, Any]


def newest(stored: Iterable[Line], case: str, identity: str) -> dict[int, Line]:
    """The lines of a case as it is stated now, the newest of each seed, in the order of the seeds."""
    lines = {line["seed"]: line for line in stored if (line["case"], line["identity"]) == (case, identity)}
    return dict(sorted(lines.items()))


def train_missing(
    store: Path,
    seeds: int,
    cases: Iterable[Case],
    current: Callable[[Case, list[Line]], dict[int, Line]],
    run: Callable[[Case, int], Line],
    score: Callable[[Line], str],
) -> None:
    """Every seed of every case that is not stored yet, and each stored as soon as it is done."""
    for seed in range(seeds):
        for case in cases:
            if seed in current(case, read_store(store)):
                continue
            line = run(case, seed)
            append(store, line)
            told = f"{line['case']:30} seed {seed}  {score(line)} in {line['cpu_seconds']:.0f} s"
            print(told, file=sys.stderr, flush=True)
