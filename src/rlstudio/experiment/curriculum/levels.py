"""Prioritised level replay.  Jiang et al. 2021, arXiv:2010.03934.

    P = (1 - rho) P_S + rho P_C     over the levels that were played
    P_S ~ (1 / rank) ^ (1 / beta)   rank by score, the highest first; equal scores share the mean of their ranks
    P_C ~ now - last                episodes since the level was last played
    score   learnability  (p + 0.05) (1 - p), p: success rate of the level
            regret        best return of the level less its mean

While there are levels that were never played, `replay` of the episodes are drawn from P and the others from those
levels, all alike. Component k is level k. Rates and means are exponentially weighted, since the policy changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.envs.params.distributions import Constant, Distribution
from rlstudio.envs.params.draw import Component, Draw
from rlstudio.experiment.curriculum.changes import NO_CHANGE, CurriculumOutcome
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import SUCCESS, LevelsConfig

HOPE = 0.05
"""A level that is never solved is worth as much as one that is solved 19 times in 20. Without it both would be worth
nothing, and by their rank levels that are all but solved would come before those that are not."""

SOLVED = 0.9
"""Success rate from which a level counts as solved, for the metrics."""


class Levels:
    """Dims: L levels."""

    def __init__(self, cfg: LevelsConfig, others: Mapping[str, Distribution], measure: Measure) -> None:
        self._cfg = cfg
        self._measure = measure
        self._metric = SUCCESS if cfg.score == "learnability" else "return"
        self._params = [{**others, cfg.parameter: Constant(float(level))} for level in range(cfg.count)]
        self.version = 0
        self.now = 0  # episodes that ended so far
        self.last_L = np.zeros(cfg.count, np.int64)  # of them, the newest of each level; 0: never played
        self.mean_L = np.zeros(cfg.count)
        self.best_L = np.zeros(cfg.count)

    @property
    def draw(self) -> Draw:
        weighted = zip(self.weights().tolist(), self._params, strict=True)
        components = (Component(weight, params, f"level {k}") for k, (weight, params) in enumerate(weighted))
        return Draw(self.version, tuple(components))

    def scores(self) -> np.ndarray:
        is_success = self._cfg.score == "learnability"
        scores_L: np.ndarray = (self.mean_L + HOPE) * (1 - self.mean_L) if is_success else self.best_L - self.mean_L
        return scores_L

    def weights(self) -> np.ndarray:
        """The probability of each level [L]."""
        cfg, played_L = self._cfg, self.last_L > 0
        weights_L = np.zeros(cfg.count)
        if not played_L.any():
            return weights_L + 1 / cfg.count
        replayed = 1.0 if played_L.all() else cfg.replay
        by_score = rank_weights(self.scores()[played_L], cfg.temperature)
        age = (self.now - self.last_L[played_L]).astype(float)
        by_age = age / age.sum() if age.any() else np.full(len(age), 1 / len(age))
        weights_L[played_L] = replayed * ((1 - cfg.staleness) * by_score + cfg.staleness * by_age)
        if not played_L.all():
            weights_L[~played_L] = (1 - replayed) / (~played_L).sum()
        return weights_L

    def update(self, episodes: Episodes, env_steps: int) -> CurriculumOutcome:
        values = self._measure(self._metric, episodes)
        for value, level in zip(values, episodes.components, strict=True):
            if not isnan(value):
                self._add(level, value)
        self.version += bool(values)
        return NO_CHANGE

    def _add(self, level: int, value: float) -> None:
        is_first = self.last_L[level] == 0
        self.now += 1
        self.last_L[level] = self.now
        self.mean_L[level] += (1.0 if is_first else self._cfg.memory) * (value - self.mean_L[level])
        self.best_L[level] = value if is_first else max(self.best_L[level], value)

    def metrics(self) -> dict[str, float]:
        weights_L = self.weights()
        positive = weights_L[weights_L > 0]
        solved = {"solved": float((self.mean_L >= SOLVED).mean())} if self._metric == SUCCESS else {}
        return {
            "played": float((self.last_L > 0).mean()),
            "entropy": float(-(positive * np.log(positive)).sum()),
            "score": float(self.scores().mean()),
            **solved,
        }

    def state_dict(self) -> State:
        arrays = {"last": self.last_L, "mean": self.mean_L, "best": self.best_L}
        return {"version": self.version, "now": self.now, **{name: array.copy() for name, array in arrays.items()}}

    def load_state_dict(self, state: State) -> None:
        self.version, self.now = int(state["version"]), int(state["now"])
        self.last_L[:], self.mean_L[:], self.best_L[:] = state["last"], state["mean"], state["best"]


def rank_weights(scores: np.ndarray, temperature: float) -> np.ndarray:
    """P_S: in proportion to (1 / rank) ^ (1 / temperature)."""
    _, groups, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    ranks = (ends - (counts - 1) / 2)[groups]  # the mean of the ranks that equal scores take up
    powers = (ranks.min() / ranks) ** (1 / temperature)  # by the first: not all of them can underflow to 0
    weights: np.ndarray = powers / powers.sum()
    return weights
