"""What chance does to an experiment: how far its seeds lie apart, since when, and what a number of seeds can show.

noise       variance of a run's result that is due to the episodes of its evaluation: mean of std^2 / episodes
seeds       what is left of the variance between runs
detectable  (t_0.975 + z_0.8) s sqrt(2 / n): the difference of two means of n runs each that a test at 5 % finds in
            four of five experiments, if both spread as these runs do
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.compare_groups import FEW_RUNS
from rlstudio.experiment.analysis.curves import resampling
from rlstudio.experiment.analysis.groups import MeasuredGroup, MeasuredRun, left_out, result_metric
from rlstudio.ops.statistics import Floats, IntervalEstimate, Statistic, bootstrap_interval, iqm, mean

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Parts of the run at which the spread is looked at."""

SEEDS = (3, 5, 10, 20, 50)
CONFIDENT, POWER = 0.975, 0.8
MOST_OF_THE_MEAN = 1e-12
"""A spread below this part of the mean is rounding: all runs have the same result."""


@dataclass(frozen=True)
class Spread:
    """Over seeds, at one place of the run."""

    step: float
    mean: float
    std: float


@dataclass(frozen=True)
class SeedVariance:
    name: str
    metric: str
    runs: int
    mean: IntervalEstimate
    iqm: IntervalEstimate
    std: IntervalEstimate  # over seeds
    lowest: float
    highest: float
    noise_share: float | None  # of the variance; None where runs were not evaluated
    drift: tuple[Spread, ...]
    detectable: dict[int, float]  # seeds of each side -> difference of their means
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {name: getattr(self, name)._asdict() for name in ("mean", "iqm", "std")}


def seed_variance(group: MeasuredGroup, metric: str | None = None) -> SeedVariance:
    """Of one group of runs, which differ in their seeds alone."""
    chosen, notes = result_metric([group], metric)
    runs = group.with_metric(chosen)
    if len(runs) < 2:
        raise UserError(f"{group.label}: {len(runs)} run has {chosen}; launch at least two seeds: --seeds 10")
    values = np.array([run.points(chosen)[1][-1] for run in runs])
    spread = float(_std(values))
    return SeedVariance(
        name=group.label,
        metric=chosen,
        runs=len(runs),
        mean=_estimate(values, mean),
        iqm=_estimate(values, iqm),
        std=_estimate(values, _std),
        lowest=float(values.min()),
        highest=float(values.max()),
        noise_share=_noise_share(runs, chosen, spread**2),
        drift=tuple(_drift(runs, chosen)),
        detectable={count: detectable_difference(spread, count) for count in SEEDS},
        notes=(*notes, *left_out(group, chosen), *_notes(runs, values)),
    )


def detectable_difference(std: float, runs: int) -> float:
    """With so many runs on each side. Of few runs the t distribution has wider tails than the normal one."""
    return (t_quantile(CONFIDENT, 2 * runs - 2) + NormalDist().inv_cdf(POWER)) * std * math.sqrt(2 / runs)


def t_quantile(share: float, freedom: int) -> float:
    """Of Student's t distribution, by the expansion of Cornish and Fisher: within 0.6 % from 4 degrees of freedom."""
    z = NormalDist().inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _std(values: Floats) -> Floats:
    return np.asarray(np.std(values, axis=-1, ddof=1))


def _estimate(values: Floats, statistic: Statistic) -> IntervalEstimate:
    low, high = bootstrap_interval(values, resampling(), statistic=statistic)
    return IntervalEstimate(float(statistic(values)), low, high)


def _noise_share(runs: Sequence[MeasuredRun], metric: str, variance: float) -> float | None:
    """How much of the variance would be there if all policies were the same."""
    noises = []
    for run in runs:
        stds, episodes = run.points("eval/return_std")[1], run.points("eval/episodes")[1]
        if not metric.startswith("eval/return") or not len(stds) or not len(episodes):
            return None
        noises.append(float(stds[-1]) ** 2 / float(episodes[-1]))
    return min(float(np.mean(noises)) / variance, 1.0) if variance else None


def _drift(runs: Sequence[MeasuredRun], metric: str) -> list[Spread]:
    """The spread over seeds along the run, up to where the shortest of them is."""
    points = [run.points(metric) for run in runs]
    start, end = max(xs[0] for xs, _ in points), min(xs[-1] for xs, _ in points)
    spreads = []
    for share in SHARES:
        step = start + share * (end - start)
        values = np.array([np.interp(step, xs, ys) for xs, ys in points])
        spreads.append(Spread(float(step), float(values.mean()), float(_std(values))))
    return spreads if end > start else spreads[-1:]


def _notes(runs: Sequence[MeasuredRun], values: Floats) -> list[str]:
    notes = []
    if len(runs) < FEW_RUNS:
        notes.append(f"{len(runs)} runs: an interval of a spread needs more, {FEW_RUNS} at the least, 10 to be of use")
    if float(np.ptp(values)) <= MOST_OF_THE_MEAN * float(np.abs(values).max()):
        notes.append("all runs have the same result: the metric has reached its limit, or the seed decides nothing")
    unfinished = sum(run.status.state != RunState.COMPLETED for run in runs)
    if unfinished:
        notes.append(f"{unfinished} of {len(runs)} runs are not COMPLETED")
    return notes
