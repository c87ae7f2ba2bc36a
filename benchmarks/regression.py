"""Did learning get worse? New seeds against the stored table, cell by cell, by an interval.

    difference = IQM(new seeds) - IQM(stored seeds), with a 95 % bootstrap interval over the seeds of both

A cell got worse where the whole interval lies below zero, by more than `TOLERANCE` of what was earned: seeds that train
to the same bits have a difference of exactly zero, and a tie on 500 must not fail by half a point. What was trained
with another config is no comparison and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.page import table
from rlstudio.ops.statistics import iqm

RESAMPLES = 10_000
TOLERANCE = 0.01
FEWEST = 3
"""Seeds of each side below which a difference says nothing."""

Lines = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """Of one cell: IQM over seeds of both sides, and the interval of what lies between them."""

    cell: str
    before: float
    after: float
    low: float
    high: float
    seeds: tuple[int, int]

    @property
    def is_regression(self) -> bool:
        """The whole interval is below zero, and not only by rounding."""
        enough = min(self.seeds) >= FEWEST
        return enough and self.high < 0 and self.after < self.before - TOLERANCE * abs(self.before)

    @property
    def verdict(self) -> str:
        if min(self.seeds) < FEWEST:
            return f"too few seeds ({FEWEST} of each are needed)"
        return "**worse**" if self.is_regression else "better" if self.low > 0 else "no difference"


def differences(stored: Lines, new: Lines, side: str) -> list[Difference]:
    """Every cell that both have with the same config, in the order of the new lines."""
    found = []
    for cell in dict.fromkeys(line["cell"] for line in new):
        mine = [line for line in new if (line["cell"], line["side"]) == (cell, side)]
        identities = {line["identity"] for line in mine}
        theirs = [x for x in stored if (x["cell"], x["side"]) == (cell, side) and x["identity"] in identities]
        if mine and theirs:
            found.append(difference(cell, means(theirs), means(mine)))
    return found


def difference(cell: str, before: np.ndarray, after: np.ndarray) -> Difference:
    generator = np.random.default_rng(0)
    drawn = [values[generator.integers(len(values), size=(RESAMPLES, len(values)))] for values in (before, after)]
    low, high = np.quantile(iqm(drawn[1]) - iqm(drawn[0]), (0.025, 0.975))
    return Difference(cell, float(iqm(before)), float(iqm(after)), float(low), float(high), (len(before), len(after)))


def report(found: Sequence[Difference]) -> str:
    rows = [
        [
            each.cell,
            f"{each.before:.1f} (n={each.seeds[0]})",
            f"{each.after:.1f} (n={each.seeds[1]})",
            f"{each.after - each.before:+.1f} [{each.low:+.1f}, {each.high:+.1f}]",
            each.verdict,
        ]
        for each in found
    ]
    return table(["cell", "stored", "new", "difference [95 %]", "verdict"], rows)


def means(lines: Lines) -> np.ndarray:
    """Each seed by the mean of its episodes; of a seed that was trained twice, the newest."""
    by_seed = {line["seed"]: float(np.mean(line["returns"])) for line in lines}
    return np.array([by_seed[seed] for seed in sorted(by_seed)])
