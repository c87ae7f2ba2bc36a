"""Rungs: when trials are compared and which of them go on. Pure functions over results; nothing here waits or writes.

    asha       of n trials at a rung, the best n / eta go on          (Li et al. 2020, arXiv:1810.05934)
    hyperband  several of these, each begins at a later rung          (Li et al. 2018, arXiv:1603.06560)
    median     those at least as good as the median at their rung go on

A trial is worth the lower confidence bound of its mean over seeds: one lucky seed carries no trial to the next rung.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from rlstudio.control.sweep.config import PrunerConfig, SweepConfig
from rlstudio.core.errors import ConfigError
from rlstudio.core.rng import Rng
from rlstudio.ops.statistics import lower_confidence_bound

Scores = Mapping[int, float]
"""Trial number -> score at one rung; more is better."""


def score(values: Iterable[float], *, minimize: bool, confidence: float) -> float:
    """What a trial is worth by the results of its seeds; more is better, whatever the metric."""
    return _bound(tuple(-value if minimize else value for value in values), confidence)


@lru_cache(maxsize=10_000)
def _bound(values: tuple[float, ...], confidence: float) -> float:
    return lower_confidence_bound(values, Rng(0, "sweep/score").generator(), confidence=confidence)


def ladder(cfg: SweepConfig, epochs: int, every: int) -> tuple[int, ...]:
    """The rungs before the last epoch. Where the metric is one of evaluations there must be one at each."""
    if cfg.sampler.kind == "pbt":
        field, rungs = "sampler.interval", tuple(range(cfg.sampler.interval, epochs, cfg.sampler.interval))
    elif cfg.pruner.kind == "none":
        return ()
    elif cfg.pruner.rungs is not None:
        field, rungs = "pruner.rungs", cfg.pruner.rungs
    else:
        field, rungs = "pruner.min_epochs", _powers(cfg.pruner.min_epochs or every or 1, cfg.pruner.eta, epochs)
    if not rungs or rungs[-1] >= epochs:
        raise ConfigError(f"{field}: give at least one rung, all before the last epoch (train.epochs is {epochs})")
    missing = [rung for rung in rungs if every == 0 or rung % every]
    if missing and cfg.metric.startswith("eval/"):
        fitting = math.gcd(*rungs)
        raise ConfigError(
            f"{field}: there is no evaluation at epoch {missing[0]} (eval.every_epochs is {every});"
            f" add overrides: [eval.every_epochs={fitting}]"
        )
    return rungs


def _powers(first: int, eta: int, epochs: int) -> tuple[int, ...]:
    rungs = []
    while first < epochs:
        rungs.append(first)
        first *= eta
    return tuple(rungs)


def brackets_of(pruner: PrunerConfig, rungs: int, trials: int) -> tuple[int, ...]:
    """For each trial the index of its first rung. Hyperband gives every bracket about the same number of epochs: the
    one that begins s rungs later, where fewer are given up, has 1 / eta^s of the trials (times its missing rungs)."""
    if pruner.kind != "hyperband" or not rungs:
        return (0,) * trials
    weights = [(rungs + 1) / (rungs + 1 - late) * pruner.eta ** (rungs - late) for late in range(rungs + 1)]
    given = [0] * len(weights)
    brackets = []
    for number in range(trials):
        wanted = [weight / sum(weights) * (number + 1) - have for weight, have in zip(weights, given, strict=True)]
        bracket = int(np.argmax(wanted))
        given[bracket] += 1
        brackets.append(bracket)
    return tuple(brackets)


def best_first(scores: Scores) -> list[int]:
    """Trial numbers, the best first; of equal ones the older."""
    return sorted(scores, key=lambda number: (-scores[number], number))


def promoted(pruner: PrunerConfig, scores: Scores, *, final: bool) -> set[int]:
    """Which of the trials with these scores at a rung go on. `final`: no more will come, so at least one does."""
    ranked = best_first(scores)
    if pruner.kind == "median":
        if len(ranked) < pruner.startup_trials:
            return set(ranked)
        middle = float(np.median(list(scores.values())))
        return {number for number in ranked if scores[number] >= middle}
    count = len(ranked) // pruner.eta
    return set(ranked[: max(count, 1) if final else count])


def wave_size(cfg: SweepConfig, trials: int, population: int) -> int:
    """How many trials are chosen together, whatever runs at the same time."""
    if cfg.sampler.kind == "cmaes":
        return population
    default = trials if cfg.sampler.kind in ("random", "grid", "pbt") else 5
    return cfg.sampler.batch or max(default, 1)
