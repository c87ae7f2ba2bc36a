"""What a handful of episode returns says about a policy: robust centres and honest intervals. NumPy only.

    IQM(x)   = mean of the middle half of x          (Agarwal et al. 2021, arXiv:2108.13264)
    interval = quantiles of the statistic over resamples of x with replacement, corrected for bias and skew
               when `method="bca"`                   (Efron 1987, doi:10.1080/01621459.1987.10478410)
    P(X > Y) = share of all pairs with x > y, ties counting one half: the probability of improvement
                                                     (Agarwal et al. 2021; Mann and Whitney's U over n m)

Randomness is passed: the same values and the same generator state give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import nan
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
Method = Literal["percentile", "bca"]

CHUNK = 1 << 20
"""Values gathered at once while resampling: ten thousand episodes must not need gigabytes."""


class IntervalEstimate(NamedTuple):
    """A number with the two ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Episode returns in nine numbers; `ci_low` and `ci_high` enclose the mean."""

    n: int
    mean: float
    std: float
    median: float
    iqm: float
    ci_low: float
    ci_high: float
    min: float
    max: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def summarize(
    returns: ArrayLike, generator: np.random.Generator, confidence: float = 0.95, resamples: int = 2000
) -> Summary:
    """The summary of one sample. `std` divides by n - 1 and is 0 for a single value."""
    values = _finite(returns)
    low, high = bootstrap_interval(values, generator, confidence=confidence, resamples=resamples, method="bca")
    return Summary(
        n=len(values),
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        median=float(np.median(values)),
        iqm=float(iqm(values)),
        ci_low=low,
        ci_high=high,
        min=float(values.min()),
        max=float(values.max()),
    )


def mean(values: Floats) -> Floats:
    """Mean over the last axis."""
    return np.asarray(values.mean(axis=-1))


def mean_given(values: ArrayLike) -> float:
    """Mean of the values that are numbers: NaN stands for one that was not given, and for the mean of none."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if len(numbers) else nan


def iqm(values: ArrayLike) -> Floats:
    """Interquartile mean over the last axis.

    A quarter of the mass is cut from each side exactly: where n / 4 is no integer, the value on the border counts by
    the fraction of it that lies inside. (Cutting whole values, as `scipy.stats.trim_mean` does, makes the statistic
    of 7 values a mean of 5 of them, and jump when an eighth arrives.)
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    n = ordered.shape[-1]
    left = np.arange(n)
    inside = np.clip(np.minimum(left + 1, 0.75 * n) - np.maximum(left, 0.25 * n), 0.0, None)
    return np.asarray((ordered * inside).sum(axis=-1) / (0.5 * n))


def bootstrap_interval(
    values: ArrayLike,
    generator: np.random.Generator,
    *,
    statistic: Statistic = mean,
    strata: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    method: Method = "percentile",
) -> tuple[float, float]:
    """Two-sided confidence interval of `statistic`, which reduces the last axis.

    `strata` labels each value (its seed, its task): values are then drawn only within their own label, so that every
    resample holds as many of each as the data does.
    """
    tail = (1.0 - _checked(confidence)) / 2.0
    return _bounds(values, generator, statistic, strata, (tail, 1.0 - tail), resamples, method)  # type: ignore[return-value]


def lower_confidence_bound(
    values: ArrayLike,
    generator: np.random.Generator,
    *,
    statistic: Statistic = mean,
    strata: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    method: Method = "percentile",
) -> float:
    """One-sided: the statistic is at least this, with the given confidence."""
    return _bounds(values, generator, statistic, strata, (1.0 - _checked(confidence),), resamples, method)[0]


def probability_of_improvement(
    tasks: Sequence[tuple[ArrayLike, ArrayLike]],
    generator: np.random.Generator,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> IntervalEstimate:
    """How probably a run of the first kind ends above one of the second, on a task drawn at random. Each task has the
    results of both kinds; runs are resampled within their task and kind."""
    tail = (1.0 - _checked(confidence)) / 2.0
    pairs = [(_finite(first), _finite(second)) for first, second in tasks]
    drawn = [
        _share_above(*(side[generator.integers(len(side), size=(resamples, len(side)))] for side in pair))
        for pair in pairs
    ]
    value = np.mean([_share_above(first[None], second[None])[0] for first, second in pairs])
    low, high = np.quantile(np.mean(drawn, axis=0), (tail, 1.0 - tail))
    return IntervalEstimate(float(value), float(low), float(high))


def _share_above(first: Floats, second: Floats) -> Floats:
    """Over all pairs of the last axes: [resamples]."""
    out = np.empty(len(first))
    rows = max(1, CHUNK // (first.shape[1] * second.shape[1]))
    for start in range(0, len(first), rows):
        mine, theirs = first[start : start + rows, :, None], second[start : start + rows, None, :]
        out[start : start + rows] = ((mine > theirs) + 0.5 * (mine == theirs)).mean(axis=(1, 2))
    return out


def _bounds(
    values: ArrayLike,
    generator: np.random.Generator,
    statistic: Statistic,
    strata: ArrayLike | None,
    levels: tuple[float, ...],
    resamples: int,
    method: Method,
) -> tuple[float, ...]:
    """Quantiles of the resampled statistic at `levels`."""
    if method == "bca" and strata is not None:
        raise ValueError("method='bca' corrects a single sample; use method='percentile' with strata")
    sample = _finite(values)
    if np.all(sample == sample[0]):  # nothing to resample, and no skew to correct
        return (float(statistic(sample)),) * len(levels)
    replicates = _replicates(sample, generator, statistic, strata, resamples)
    if method == "bca":
        levels = _corrected(sample, statistic, replicates, levels)
    return tuple(np.quantile(replicates, levels).tolist())


def _replicates(
    sample: Floats, generator: np.random.Generator, statistic: Statistic, strata: ArrayLike | None, resamples: int
) -> Floats:
    """The statistic of `resamples` samples drawn with replacement: [resamples]."""
    n = len(sample)
    groups = [np.arange(n)] if strata is None else _groups(strata, n)
    out = np.empty(resamples)
    rows = max(1, CHUNK // n)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = [group[generator.integers(len(group), size=(count, len(group)))] for group in groups]
        out[start : start + count] = statistic(sample[np.concatenate(drawn, axis=1)])
    return out


def _groups(strata: ArrayLike, n: int) -> list[NDArray[np.intp]]:
    labels = np.asarray(strata)
    if labels.shape != (n,):
        raise ValueError(f"strata must label each of the {n} values, got shape {labels.shape}")
    _, index = np.unique(labels, return_inverse=True)
    return [np.flatnonzero(index == group) for group in range(int(index.max()) + 1)]


def _corrected(
    sample: Floats, statistic: Statistic, replicates: Floats, levels: tuple[float, ...]
) -> tuple[float, ...]:
    """BCa levels: z0 is how far the replicates' median lies from the estimate, `skew` the jackknife's acceleration."""
    normal = NormalDist()
    estimate = float(statistic(sample))
    below = float(np.mean(replicates < estimate) + 0.5 * np.mean(replicates == estimate))
    half = 0.5 / len(replicates)  # keeps z0 finite when every replicate lies on one side
    z0 = normal.inv_cdf(min(max(below, half), 1.0 - half))

    without = _jackknife(sample, statistic)
    away = without.mean() - without
    spread = float((away**2).sum())
    skew = float((away**3).sum()) / (6.0 * spread**1.5) if spread > 0.0 else 0.0

    def corrected(level: float) -> float:
        z = z0 + normal.inv_cdf(level)
        scale = 1.0 - skew * z
        return normal.cdf(z0 + z / scale) if scale > 0.0 else level

    return tuple(corrected(level) for level in levels)


def _jackknife(sample: Floats, statistic: Statistic) -> Floats:
    """The statistic with each value left out in turn: [n]."""
    n = len(sample)
    out = np.empty(n)
    rows = max(1, CHUNK // n)
    for start in range(0, n, rows):
        left_out = np.arange(start, min(start + rows, n))[:, None]
        kept = np.arange(n - 1)[None, :]
        out[start : start + rows] = statistic(sample[kept + (kept >= left_out)])
    return out


def _finite(values: ArrayLike) -> Floats:
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or not len(sample) or not np.isfinite(sample).all():
        raise ValueError(f"a sample is a non-empty row of finite numbers, got {sample!r}")
    return sample


def _checked(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return confidence
