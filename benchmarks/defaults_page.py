"""The tables of `docs/defaults.md`, from the finished seeds: cell by cell, and each algorithm as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.defaults_cells import CELLS, DefaultsCell
from benchmarks.page import replace_between, table
from benchmarks.settings import OURS, REFERENCE, TITLES
from benchmarks.venvs import ROOT
from rlstudio.ops.statistics import bootstrap_interval, probability_of_improvement

PAGE = ROOT / "docs" / "defaults.md"
RESAMPLES = 10_000
SEEDS = 5
GOAL, LOWEST_GOAL = 0.5, 0.4

Lines = Sequence[dict[str, Any]]
Sides = dict[str, NDArray[np.float64]]
"""The mean return of each seed, by side."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 1 if max(abs(self.low), abs(self.high)) >= 10 else 2
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def interval(means: NDArray[np.float64]) -> Interval:
    """The mean over seeds, each by the mean of its episodes."""
    low, high = bootstrap_interval(means, np.random.default_rng(0), resamples=RESAMPLES)
    return Interval(float(means.mean()), low, high)


def improvement(cells: Sequence[Sides]) -> Interval:
    """The probability that a seed of ours ends above one of theirs, in a cell drawn at random."""
    tasks = [(sides[OURS], sides[REFERENCE]) for sides in cells]
    return Interval(*probability_of_improvement(tasks, np.random.default_rng(0), resamples=RESAMPLES))


def seeds_of(cell: DefaultsCell, lines: Lines) -> Sides:
    sides = {}
    for side in (OURS, REFERENCE):
        ordered = sorted((x for x in lines if (x["cell"], x["side"]) == (cell.key, side)), key=lambda x: x["seed"])
        sides[side] = np.array([np.mean(line["returns"]) for line in ordered], np.float64)
    return sides


def is_below(sides: Sides) -> bool:
    """Whether our whole interval lies below theirs."""
    return interval(sides[OURS]).high < interval(sides[REFERENCE]).low


def write(lines: Lines) -> str:
    text = report(lines)
    replace_between(PAGE, "defaults", text)
    return text


def report(lines: Lines) -> str:
    """Each algorithm as a whole, each cell, what is missing, and with which versions it was measured."""
    seeds = {cell.key: seeds_of(cell, lines) for cell in CELLS}
    if not lines:
        return "No seed has been trained yet."
    parts = [_algorithms(seeds), _cells(seeds), _missing(seeds), "\n".join(_provenance(lines))]
    return "\n\n".join(part for part in parts if part)


def _algorithms(seeds: Mapping[str, Sides]) -> str:
    rows = []
    for algo in dict.fromkeys(cell.algo for cell in CELLS):
        cells = [cell for cell in CELLS if cell.algo == algo]
        both = [cell for cell in cells if all(len(side) for side in seeds[cell.key].values())]
        if not both:
            continue
        held_out = [cell for cell in both if not cell.chosen_on]
        overall = improvement([seeds[cell.key] for cell in both])
        below = [cell.env_id for cell in both if is_below(seeds[cell.key])]
        reached = overall.value >= GOAL and overall.low >= LOWEST_GOAL and not below
        complete = all(len(side) >= SEEDS for cell in cells for side in seeds[cell.key].values())
        rows.append(
            [
                algo,
                f"{len(both)} of {len(cells)}",
                str(overall),
                str(improvement([seeds[cell.key] for cell in held_out])) if held_out else "-",
                ", ".join(below) or "none",
                ("reached" if reached else "**missed**") if complete else "open: seeds are missing",
            ]
        )
    header = ["algorithm", "environments", "probability of improvement [95 %]", "held out only"]
    return table([*header, "interval below theirs", "goal"], rows) if rows else ""


def _cells(seeds: Mapping[str, Sides]) -> str:
    rows = []
    for cell in CELLS:
        sides = seeds[cell.key]
        if not any(len(side) for side in sides.values()):
            continue
        texts = [f"{interval(means)} (n={len(means)})" if len(means) else "-" for means in sides.values()]
        whole = all(len(side) for side in sides.values())
        chance = f"{improvement([sides]).value:.2f}" if whole else "-"
        rows.append(
            [
                f"{cell.algo}, {cell.env_id}",
                "chosen on" if cell.chosen_on else "held out",
                f"{cell.env_steps:,}",
                *texts,
                chance,
                ("**below**" if is_below(sides) else "not below") if whole else "-",
            ]
        )
    header = ["cell", "half", "steps", *(f"{TITLES[side]} [95 %]" for side in (OURS, REFERENCE))]
    return table([*header, "P(ours above)", "ours"], rows)


def _missing(seeds: Mapping[str, Sides]) -> str:
    """The seeds that are still to be trained, by side and algorithm."""
    lines = []
    for side in (OURS, REFERENCE):
        for algo in dict.fromkeys(cell.algo for cell in CELLS):
            cells = [cell for cell in CELLS if cell.algo == algo]
            open_cells = {cell.env_id: SEEDS - len(seeds[cell.key][side]) for cell in cells}
            names = [f"{env_id} {count}" for env_id, count in open_cells.items() if count > 0]
            if names:
                lines.append(f"- {TITLES[side]}, {algo}: {', '.join(names)}")
    return "Seeds still to be trained:\n\n" + "\n".join(lines) if lines else ""


def _provenance(lines: Lines) -> list[str]:
    """With which versions, on what and when, each combination once."""
    notes = [
        f"<sub>{TITLES[line['side']]}: {', '.join(f'{k} {v}' for k, v in line['versions'][line['side']].items())};"
        f" {line['date']}, {line['machine']['cores']} cores ({line['machine']['processor']}).</sub>"
        for line in lines
    ]
    return list(dict.fromkeys(notes))
