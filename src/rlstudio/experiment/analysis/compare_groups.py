"""Groups of runs side by side: what each earned at its end, and how probably each is better than the first.

A run counts by its last value of the metric. A group has the interquartile mean and the mean of its runs with 95 %
bootstrap intervals, and the probability that one of its runs ends above one of the first group's (ops.statistics). What
makes two groups hard to compare is a note.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.curves import resampling
from rlstudio.experiment.analysis.groups import MeasuredGroup, MeasuredRun, left_out, listed, result_metric
from rlstudio.ops.statistics import (
    IntervalEstimate,
    Statistic,
    bootstrap_interval,
    iqm,
    mean,
    probability_of_improvement,
)

FEW_RUNS = 5
"""Below that, resampling the runs says little about runs that were never made."""


@dataclass(frozen=True)
class RunResult:
    """The last value that a run has of the metric."""

    id: str
    seed: int
    state: RunState
    step: int
    value: float

    def to_json(self) -> dict[str, object]:
        return {"id": self.id, "seed": self.seed, "state": str(self.state), "step": self.step, "value": self.value}


@dataclass(frozen=True)
class GroupResult:
    """One group. Intervals need two runs; `improvement` is over the first group, in which it is None."""

    name: str
    envs: tuple[str, ...]
    algos: tuple[str, ...]
    runs: tuple[RunResult, ...]
    iqm: IntervalEstimate | None
    mean: IntervalEstimate | None
    improvement: IntervalEstimate | None = None

    @property
    def n(self) -> int:
        return len(self.runs)

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "n": self.n,
            "envs": list(self.envs),
            "algos": list(self.algos),
            "iqm": _estimate(self.iqm),
            "mean": _estimate(self.mean),
            "improvement": _estimate(self.improvement),
            "runs": [run.to_json() for run in self.runs],
        }


@dataclass(frozen=True)
class GroupComparison:
    metric: str
    minimize: bool
    groups: tuple[GroupResult, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "metric": self.metric,
            "direction": "minimize" if self.minimize else "maximize",
            "groups": [group.to_json() for group in self.groups],
            "notes": list(self.notes),
        }


def compare_groups(
    groups: Sequence[MeasuredGroup], metric: str | None = None, *, minimize: bool = False
) -> GroupComparison:
    """`minimize`: less of the metric is better."""
    chosen, notes = result_metric(groups, metric)
    results: list[GroupResult] = []
    for group in groups:
        notes += left_out(group, chosen)
        results.append(_result(group, chosen, results[0] if results else None, minimize))
    return GroupComparison(chosen, minimize, tuple(results), (*notes, *_doubts(results)))


def _result(group: MeasuredGroup, metric: str, first: GroupResult | None, minimize: bool) -> GroupResult:
    runs = tuple(_last(run, metric) for run in group.with_metric(metric))
    values = [run.value for run in runs]
    improvement = None
    if first is not None and values and first.runs:
        improvement = _improvement(values, [run.value for run in first.runs], minimize)
    return GroupResult(
        group.label,
        tuple(dict.fromkeys(run.status.env_id for run in group.runs)),
        tuple(dict.fromkeys(run.status.algo for run in group.runs)),
        runs,
        over_runs(values, iqm) if values else None,
        over_runs(values, mean) if values else None,
        improvement,
    )


def _last(run: MeasuredRun, metric: str) -> RunResult:
    steps, values = run.points(metric)
    status = run.status
    return RunResult(status.id, status.seed, status.state, int(steps[-1]), float(values[-1]))


def over_runs(values: Sequence[float], statistic: Statistic) -> IntervalEstimate:
    """The statistic of several runs with its 95 % bootstrap interval; one run has none."""
    centre = float(statistic(np.asarray(values, np.float64)))
    if len(values) < 2:
        return IntervalEstimate(centre, math.nan, math.nan)
    return IntervalEstimate(centre, *bootstrap_interval(values, resampling(), statistic=statistic))


def _improvement(mine: Sequence[float], theirs: Sequence[float], minimize: bool) -> IntervalEstimate:
    pair = (theirs, mine) if minimize else (mine, theirs)
    estimate = probability_of_improvement([pair], resampling())
    return estimate if min(len(mine), len(theirs)) > 1 else IntervalEstimate(estimate.value, math.nan, math.nan)


def _doubts(results: Sequence[GroupResult]) -> list[str]:
    """What a reader of the numbers should know."""
    notes = []
    if len({result.envs for result in results}) > 1 or any(len(result.envs) > 1 for result in results):
        each = "; ".join(f"{result.name}: {', '.join(result.envs)}" for result in results)
        notes.append(f"environments differ, so the values do not compare ({each})")
    runs = [run for result in results for run in result.runs]
    steps = sorted({run.step for run in runs})
    if len(steps) > 1:
        notes.append(f"the last values are of different steps, from {steps[0]:,} to {steps[-1]:,}")
    states = Counter(str(run.state) for run in runs if run.state != RunState.COMPLETED)
    if states:
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        notes.append(f"{states.total()} of {len(runs)} runs are not COMPLETED ({counts})")
    for result in results:
        twice = [str(seed) for seed, count in Counter(run.seed for run in result.runs).items() if count > 1]
        if twice:
            notes.append(f"{result.name}: several runs of seed {listed(twice)}, which are not independent")
    few = [result.name for result in results if 1 < result.n < FEW_RUNS]
    if few:
        notes.append(f"{listed(few)}: intervals from fewer than {FEW_RUNS} runs are too narrow; launch more seeds")
    return notes


def _estimate(estimate: IntervalEstimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()}
