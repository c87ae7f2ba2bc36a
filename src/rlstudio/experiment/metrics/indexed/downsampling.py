"""Fewer points of a curve, such that no extreme is lost.

A curve is cut into buckets of 2^k points, counted from its beginning. Of each bucket the lowest and the highest point
are kept (and its first one that is not finite), besides the first and the last point of all. Buckets do not move as
points are added: what was chosen of a full one stays, until the curve has outgrown its buckets and each two of them
become one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstudio.core.errors import UserError

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

FEWEST_POINTS = 10


def kept_points(values: Floats, positions: Positions, points: int) -> Positions:
    """Which of the values to keep, at most so many of them, in their order. `positions`: where in the whole curve each
    of them is, ascending; a part of a curve then has the buckets that the whole has."""
    if points < FEWEST_POINTS:
        raise UserError(f"points: {points} is too few to draw a curve; give {FEWEST_POINTS} or more")
    if len(values) <= points:
        return np.arange(len(values), dtype=np.int64)
    finite = np.isfinite(values)
    of_each = 2 if finite.all() else 3
    width = bucket_width(int(positions[0]), int(positions[-1]), (points - 2) // of_each)
    buckets = positions // width
    starts = np.flatnonzero(np.diff(buckets, prepend=-1))
    kept = [
        np.array([0, len(values) - 1]),
        _first_lowest(np.where(finite, values, np.inf), starts),
        _first_lowest(np.where(finite, -values, np.inf), starts),
    ]
    if of_each == 3:
        odd = np.flatnonzero(~finite)
        kept.append(odd[np.unique(buckets[odd], return_index=True)[1]])
    return np.unique(np.concatenate(kept)).astype(np.int64)


def bucket_width(first: int, last: int, buckets: int) -> int:
    """The smallest power of two with which points `first` to `last` fall into at most so many buckets."""
    width = 1
    while last // width - first // width >= buckets:
        width *= 2
    return width


def _first_lowest(values: Floats, starts: Positions) -> Positions:
    """Where in each bucket the lowest value first is."""
    sizes = np.diff(starts, append=len(values))
    lowest = np.flatnonzero(values == np.repeat(np.minimum.reduceat(values, starts), sizes))
    which = np.searchsorted(starts, lowest, side="right")
    return lowest[np.unique(which, return_index=True)[1]]
