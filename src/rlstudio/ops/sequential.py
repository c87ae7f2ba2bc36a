"""Is the new one better? A paired test that may look several times and still errs only as often as it says.

    d_i   = return of the candidate - return of the incumbent, on the same seed
    bound = mean(d) - t_{n-1}(1 - alpha_k) std(d) / sqrt(n)          at look k of K
    alpha_k: the error rate spent at look k, such that all of them together spend alpha (Lan & DeMets 1983)

Spending follows Pocock's curve, alpha ln(1 + (e - 1) t) at the share t of the budget: early looks get a real chance,
since a clearly better policy shows within a few episodes. The union bound makes it hold for any dependence between
looks, so it errs on the careful side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import e, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Look:
    """What one look at the paired differences says."""

    n: int
    mean: float
    std: float
    lower: float  # the mean difference is above this, except in `alpha` of all cases
    upper: float  # and below this
    alpha: float  # what this look may spend

    def passes(self, margin: float) -> bool:
        return self.lower > margin

    def is_hopeless(self, margin: float) -> bool:
        """No further episodes are likely to help: even the optimistic end is not above the margin."""
        return self.upper <= margin


def spending(looks: Sequence[int], alpha: float) -> list[float]:
    """The error rate that each look (after so many episodes) may spend; they sum to `alpha`."""
    if not looks or any(later <= earlier for earlier, later in pairwise(looks)):
        raise ValueError(f"looks must grow, got {list(looks)}")
    spent = [alpha * log(1 + (e - 1) * n / looks[-1]) for n in looks]
    return [now - before for before, now in zip([0.0, *spent], spent, strict=False)]


def look(differences: ArrayLike, alpha: float) -> Look:
    """Bounds of the mean difference after these episodes. Without any spread they meet at the mean."""
    values = np.asarray(differences, np.float64)
    n = len(values)
    if n < 2 or not np.isfinite(values).all():
        raise ValueError("at least two finite differences are needed")
    centre, std = float(values.mean()), float(values.std(ddof=1))
    reach = student_quantile(1 - alpha, n - 1) * std / sqrt(n)
    return Look(n, centre, std, centre - reach, centre + reach, alpha)


def student_quantile(p: float, degrees: int) -> float:
    """A quantile of Student's t distribution by Hill's expansion around the normal one (Abramowitz & Stegun 26.7.5):
    within 1e-3 from 10 degrees on for the levels used here."""
    z, v = NormalDist().inv_cdf(p), float(degrees)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v ** (power + 1) for power, term in enumerate(terms))
