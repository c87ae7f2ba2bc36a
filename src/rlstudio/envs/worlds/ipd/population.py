"""The opponents that survive among themselves: a population of strategies under replicator dynamics.

    dw_i/dt = w_i ((A w)_i - w.A w)      A[i, j] value of i against j, less CROWDING where i = j

Every strategy of the grid starts with the same weight. The crowding term makes a strategy that is common worth less,
so several survive instead of one (Taylor & Jonker 1978; Hofbauer & Sigmund 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from rlstudio.envs.worlds.ipd.memory_one import Payoffs, best_response, trembling, value

CROWDING = 0.35
TIME_STEP, STEPS = 0.05, 50_000
SMALLEST_WEIGHT = 1e-4


@dataclass(frozen=True)
class Pool:
    """Strategies [N, 5] as they play, tremble included, and how often one meets each [N]."""

    strategies: np.ndarray
    weights: np.ndarray

    def value_of(self, one: np.ndarray, payoffs: Payoffs, gamma: float) -> float:
        """What a strategy of one round's memory gets per round from an opponent drawn from the pool."""
        return float(value(one, self.strategies, payoffs, gamma) @ self.weights)

    def best_memory_one(self, payoffs: Payoffs, gamma: float) -> float:
        """The most that a certain reply to the last outcome gets."""
        return max(self.value_of(one, payoffs, gamma) for one in _grid(2))

    def bound(self, payoffs: Payoffs, gamma: float) -> float:
        """The most that anyone could get who knew the opponent from the start."""
        best = [best_response(opponent, payoffs, gamma).value for opponent in self.strategies]
        return float(np.array(best) @ self.weights)


@lru_cache(maxsize=8)
def replicator_pool(payoffs: Payoffs, gamma: float, tremble: float, levels: int = 2) -> Pool:
    """Who is left of `levels` ** 5 strategies, most common first; about 0.4 s, once per process."""
    strategies = trembling(_grid(levels), tremble)
    worth = value(strategies[:, None], strategies[None], payoffs, gamma) - CROWDING * np.eye(len(strategies))
    weights = np.full(len(strategies), 1 / len(strategies))
    for _ in range(STEPS):
        fitness = worth @ weights
        weights = weights + TIME_STEP * weights * (fitness - weights @ fitness)
    left = np.flatnonzero(weights > SMALLEST_WEIGHT)
    left = left[np.argsort(-weights[left], kind="stable")]
    return Pool(strategies[left], weights[left] / weights[left].sum())


def _grid(levels: int) -> np.ndarray:
    return np.array(list(product(np.linspace(0.0, 1.0, levels), repeat=5)))
