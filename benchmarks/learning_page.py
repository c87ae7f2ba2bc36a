"""The table of `docs/learning.md`, from the finished seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cells import CELLS, SOURCE, Cell
from benchmarks.page import replace_between, table
from benchmarks.settings import OURS, TITLES
from benchmarks.venvs import ROOT
from rlstudio.ops.statistics import bootstrap_interval, iqm

PAGE = ROOT / "docs" / "learning.md"
RESAMPLES = 10_000


@dataclass(frozen=True)
class Score:
    """What the seeds of one cell say: each seed counts by the mean of its episodes."""

    means: tuple[float, ...]
    env_steps: int
    iqm: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.iqm:.1f} [{self.low:.1f}, {self.high:.1f}]"

    def overlaps(self, other: Score) -> bool:
        return self.low <= other.high and other.low <= self.high


def score(lines: Sequence[dict[str, Any]]) -> Score:
    ordered = sorted(lines, key=lambda line: line["seed"])
    means = tuple(float(np.mean(line["returns"])) for line in ordered)
    low, high = bootstrap_interval(means, np.random.default_rng(0), statistic=iqm, resamples=RESAMPLES)
    return Score(means, max(line["env_steps"] for line in ordered), float(iqm(means)), low, high)


def solved(cell: Cell, mine: Score) -> int | None:
    """How many seeds reach the threshold; None where there is none."""
    return None if cell.threshold is None else sum(mean >= cell.threshold for mean in mine.means)


def verdict(cell: Cell, mine: Score, other: Score | None) -> str:
    """The promise of the cell, kept or not."""
    if cell.published is None:
        return "every seed solved" if solved(cell, mine) == len(mine.means) else "**a seed missed**"
    if mine.iqm >= cell.published.mean:
        return "at or above published"
    if other is not None and (mine.iqm >= other.iqm or mine.overlaps(other)):
        return "not below Stable-Baselines3 here"
    if mine.iqm >= cell.published.mean - cell.published.std:
        return "within the published spread"
    return "**below**" if other is not None else "**below** published; Stable-Baselines3 not run here yet"


def write(lines: Sequence[dict[str, Any]], held_out: Sequence[dict[str, Any]] = ()) -> str:
    text = report(lines, held_out)
    replace_between(PAGE, "learning", text)
    return text


def report(lines: Sequence[dict[str, Any]], held_out: Sequence[dict[str, Any]] = ()) -> str:
    """`held_out`: lines of seeds that chose nothing."""
    rows, notes = [], []
    for cell in CELLS:
        sides = {side: [x for x in lines if x["cell"] == cell.key and x["side"] == side] for side in (OURS, "sb3")}
        if not sides[OURS]:
            continue
        mine = score(sides[OURS])
        other = score(sides["sb3"]) if sides["sb3"] else None
        rows.append(
            [
                f"`{cell.config}`",
                f"{mine.env_steps:,}",
                str(mine),
                f"{min(mine.means):.1f}",
                "-" if cell.threshold is None else f"{solved(cell, mine)} of {len(mine.means)} (>= {cell.threshold:g})",
                _held_out([line for line in held_out if line["cell"] == cell.key]),
                str(cell.published or "-"),
                f"{other} (n={len(other.means)})" if other else "-",
                verdict(cell, mine, other),
            ]
        )
        notes += _provenance(sides[OURS] + sides["sb3"] + [x for x in held_out if x["cell"] == cell.key])
    if not rows:
        return "No seed has been trained yet."
    header = ["config", "steps", "IQM [95 %]", "lowest seed", "seeds solved", "seeds that chose nothing"]
    body = table([*header, f"published ({SOURCE})", "Stable-Baselines3 here", "verdict"], rows)
    return f"{body}\n\n" + "\n".join(f"<sub>{note}</sub>" for note in dict.fromkeys(notes))


def _held_out(lines: Sequence[dict[str, Any]]) -> str:
    if not lines:
        return "-"
    found = score(lines)
    return f"{found.iqm:.1f}, lowest {min(found.means):.1f} (n={len(found.means)})"


def _provenance(lines: Sequence[dict[str, Any]]) -> list[str]:
    """With which versions, on what and when, each combination once."""
    return [
        f"{TITLES[line['side']]}: {', '.join(f'{k} {v}' for k, v in line['versions'][line['side']].items())};"
        f" {line['date']}, {line['machine']['cores']} cores ({line['machine']['processor']}),"
        f" {len(line['returns'])} episodes a seed, from seed 10,000,000."
        for line in lines
    ]
