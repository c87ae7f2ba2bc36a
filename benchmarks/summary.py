"""From raw measurements to the numbers of a table: medians, the better thread count, ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Speed:
    """An entry of a rate row: its median rate for each thread count, and its memory."""

    key: str
    rates: dict[int, float]
    peak_rss_mb: float

    @property
    def threads(self) -> int:
        """The better thread count."""
        return max(self.rates, key=self.rates.__getitem__)

    @property
    def best(self) -> float:
        return self.rates[self.threads]


def facts_of(result: dict[str, Any], side: str) -> dict[str, Any]:
    """Command, date and machine of a side's numbers: its own where the others were measured later."""
    facts: dict[str, Any] = result.get("earlier", {}).get(side, result)
    return facts


def speeds(measurements: Sequence[Measurement]) -> dict[str, Speed]:
    """Each entry that answered; failed repetitions are left out of its median."""
    good = [row for row in measurements if "steps_per_second" in row]
    found: dict[str, Speed] = {}
    for key in dict.fromkeys(row["entry"] for row in good):
        mine = [row for row in good if row["entry"] == key]
        rates = {
            threads: median(row["steps_per_second"] for row in mine if row["threads"] == threads)
            for threads in sorted({row["threads"] for row in mine})
        }
        # The highest of all repetitions: memory has no lucky median.
        found[key] = Speed(key, rates, max(row["peak_rss_mb"] for row in mine))
    return found


@dataclass(frozen=True)
class Solved:
    """An entry of the solve row. A seed that never got there counts as endless, so it weighs on the median."""

    key: str
    seconds: tuple[float, ...]
    env_steps: tuple[int, ...]

    @property
    def median_s(self) -> float:
        return median(self.seconds)

    @property
    def solved(self) -> int:
        return sum(value < float("inf") for value in self.seconds)


def solves(measurements: Sequence[Measurement]) -> dict[str, Solved]:
    found: dict[str, Solved] = {}
    for key in dict.fromkeys(row["entry"] for row in measurements):
        mine = [row for row in measurements if row["entry"] == key and "env_steps" in row]
        seconds = tuple(float("inf") if row["seconds"] is None else float(row["seconds"]) for row in mine)
        if seconds:
            found[key] = Solved(key, seconds, tuple(int(row["env_steps"]) for row in mine))
    return found


def failures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Entries with at least one failed repetition, and the last words of one."""
    return {row["entry"]: row["error"] for row in measurements if "error" in row}
