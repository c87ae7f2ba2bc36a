"""Groups of runs with what they measured: which metric is drawn or compared, and one curve for each group.

What is done otherwise than a reader may expect (another metric, a run that is left out) is a note: one line of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rlstudio.experiment.analysis.curves import (
    EVALUATION_RETURN,
    TRAINING_RETURN,
    Curve,
    Points,
    choose_metric,
    finite_points,
)
from rlstudio.experiment.folder.status import Status
from rlstudio.experiment.metrics.indexed.index import Series

FEWEST_EVALUATIONS = 3
"""Of one run; fewer make no curve."""

MOST_NAMED = 3

_SAME_END = {"steps": 1.0, "seconds": 0.9}
"""Share of the longest run below which the shortest is told to end a curve: no two runs take the same time."""


@dataclass(frozen=True)
class MeasuredRun:
    status: Status
    series: Series

    def points(self, metric: str) -> Points:
        """The finite values in step order; empty where there are none."""
        return finite_points(*self.series.get(metric, ((), ())))


@dataclass(frozen=True)
class MeasuredGroup:
    """Repetitions of one experiment: runs that share a name and a configuration."""

    label: str
    runs: tuple[MeasuredRun, ...]

    def with_metric(self, metric: str) -> list[MeasuredRun]:
        return [run for run in self.runs if len(run.points(metric)[0])]


class MetricChoice(NamedTuple):
    metric: str
    notes: list[str]


def curve_metric(groups: Sequence[MeasuredGroup], wanted: str | None = None) -> MetricChoice:
    """What is drawn: `wanted`; else the evaluation return; else, where a group has too few evaluations for a curve and
    all have a training return with more points, that one."""
    metric = choose_metric(_names(groups), wanted)
    if wanted is not None or metric != EVALUATION_RETURN or not _all_have(groups, TRAINING_RETURN):
        return MetricChoice(metric, [])
    counts = {group.label: max(len(run.points(metric)[0]) for run in group.runs) for group in groups}
    few = {label: count for label, count in counts.items() if count < FEWEST_EVALUATIONS}
    longest = max(len(run.points(TRAINING_RETURN)[0]) for group in groups for run in group.runs)
    if not few or longest <= max(counts.values()):
        return MetricChoice(metric, [])
    most = max(few.values())
    return MetricChoice(
        TRAINING_RETURN,
        [
            f"{listed(few)}: at most {most} evaluation{'s' * (most != 1)} of each run, too few for a curve, so the"
            f" training return ({TRAINING_RETURN}) is drawn; choose the metric {EVALUATION_RETURN} to see the"
            " evaluations"
        ],
    )


def result_metric(groups: Sequence[MeasuredGroup], wanted: str | None = None) -> MetricChoice:
    """What is compared: `wanted`; else the evaluation return; else, where a group has none and all have a training
    return, that one."""
    metric = choose_metric(_names(groups), wanted)
    without = [group.label for group in groups if not group.with_metric(metric)]
    if wanted is not None or metric != EVALUATION_RETURN or not without or not _all_have(groups, TRAINING_RETURN):
        return MetricChoice(metric, [])
    note = f"{listed(without)}: no evaluation yet, so the training return ({TRAINING_RETURN}) is compared"
    return MetricChoice(TRAINING_RETURN, [note])


def curves_of(groups: Sequence[MeasuredGroup], metric: str, unit: str = "steps") -> tuple[list[Curve], list[str]]:
    """One curve for each group, and notes about runs that are not in it to their end. `unit`: what curves are over."""
    curves, notes = [], []
    for group in groups:
        runs = group.with_metric(metric)
        curves.append(Curve(group.label, [run.points(metric) for run in runs]))
        notes += left_out(group, metric)
        ends = {run.status.id: float(run.points(metric)[0][-1]) for run in runs}
        if ends and min(ends.values()) < _SAME_END[unit] * max(ends.values()):
            shortest = min(ends, key=lambda run_id: ends[run_id])
            notes.append(
                f"{group.label}: the curve ends at {amount(ends[shortest])} {unit} with run {shortest}; the longest"
                f" run has {amount(max(ends.values()))}"
            )
    return curves, notes


def amount(x: float) -> str:
    """Steps or seconds; fewer than ten seconds need their fraction."""
    return f"{x:,.0f}" if x >= 10 or x.is_integer() else f"{x:.2f}"


def left_out(group: MeasuredGroup, metric: str) -> list[str]:
    """A note about the runs of a group that have no value of the metric."""
    missing = [run.status.id for run in group.runs if not len(run.points(metric)[0])]
    if not missing:
        return []
    return [f"{group.label}: {len(missing)} of {len(group.runs)} without {metric}, left out: {listed(missing)}"]


def listed(names: Iterable[str]) -> str:
    """The first few, and how many more."""
    every = list(names)
    more = len(every) - MOST_NAMED
    return ", ".join(every[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _names(groups: Sequence[MeasuredGroup]) -> list[str]:
    return [name for group in groups for run in group.runs for name in run.series]


def _all_have(groups: Sequence[MeasuredGroup], metric: str) -> bool:
    return all(group.with_metric(metric) for group in groups)
