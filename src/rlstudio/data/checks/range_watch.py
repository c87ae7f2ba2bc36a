"""Notices observations far outside the space that an environment declares: a wrong unit, a sensor that overflows.

"Far" is more than the width of the range beyond it, since many environments overstep their bounds a little; where a
bound is missing, numbers whose square is no longer a float32. Nothing is changed: such rows are learned from, and it is
reported once.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Box, Dict, Space

UNBOUNDED = 1e18


class RangeWatch:
    def __init__(self, space: Space) -> None:
        entries = space.items() if isinstance(space, Dict) else (("", space),)
        self._leaves = {
            name: _Limits(leaf) for name, leaf in entries if isinstance(leaf, Box) and leaf.dtype.startswith("float")
        }

    def look(self, observations: Array) -> tuple[int, int, str] | None:
        """What is far outside in this block [T, B, ...], the first time that something is: time, env and the number."""
        for name, limits in self._leaves.items():
            block = observations[name] if isinstance(observations, dict) else observations
            if limits.may_exceed(block) and (excess := limits.excess(block)):
                self._leaves = {}
                time, env, text = excess
                return time, env, f"observation{f' {name!r}' if name else ''}{text}"
        return None


class _Limits:
    def __init__(self, box: Box) -> None:
        self._low, self._high = (side.astype(np.float64).reshape(-1) for side in box.bounds())
        with np.errstate(invalid="ignore", over="ignore"):
            width = self._high - self._low
        bounded = np.isfinite(width) & (np.abs(self._low) < UNBOUNDED) & (np.abs(self._high) < UNBOUNDED)
        self._lowest = np.where(bounded, self._low - width, -UNBOUNDED)
        self._highest = np.where(bounded, self._high + width, UNBOUNDED)
        nearest = np.minimum(np.abs(self._lowest), np.abs(self._highest))
        with np.errstate(divide="ignore"):
            self._per_limit = (1.0 / nearest).astype(np.float32).reshape(box.shape)

    def may_exceed(self, block: np.ndarray) -> bool:
        """Each number in units of the nearer of its limits: where the sum of all squares is below 1, none exceeds its
        own. A quick answer, for most blocks the only one that is asked for."""
        with np.errstate(over="ignore", invalid="ignore"):
            flat = (block * self._per_limit).reshape(-1)
            return not flat.dot(flat) < 1.0

    def excess(self, block: np.ndarray) -> tuple[int, int, str] | None:
        """The first number outside: its time, its env, and in words its element, itself and its range."""
        rows = block.reshape(*block.shape[:2], -1)
        places = np.argwhere((rows < self._lowest) | (rows > self._highest))
        if not len(places):
            return None
        time, env, element = places[0].tolist()
        low, high = self._low[element], self._high[element]
        index = [int(part) for part in np.unravel_index(element, block.shape[2:])]
        number = f"{index if index else ''} is {rows[time, env, element]:g}"
        return time, env, f"{number}, its space says {low:g} to {high:g}"
