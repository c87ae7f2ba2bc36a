"""Samplers choose the parameters of a trial from its number and what is known of the others.

None of them keeps a state: each choice is computed from all trials in the store, and its random numbers are those of
(sweep seed, trial number). So nothing is pickled, and a driver that was killed chooses the same again.
Optuna's own CMA-ES keeps its state as a pickle in the study; ours gives the library's core all generations again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rlstudio.control.sweep.config import SamplerConfig
from rlstudio.control.sweep.space import Axis, Params, Space
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.host.extras import Extra
from rlstudio.core.rng import Rng

if TYPE_CHECKING:
    import optuna

OPTUNA, CMAES = (Extra("sweep", module) for module in ("optuna", "cmaes"))
SIGMA = 0.25
"""First spread of cmaes, as a share of each range."""


class Sampler(Protocol):
    """Chooses the settings of the trials of a sweep."""

    def choose(self, number: int, known: Sequence[Trial]) -> Params:
        """Parameters for trial `number`; `known` are the others, in order: with results, or still running."""
        ...


def make_sampler(cfg: SamplerConfig, space: Space) -> Sampler:
    sampler: Sampler = cfg.build(space)
    return sampler


class Random:
    """Every setting by chance, whatever the others came to."""

    def __init__(self, cfg: SamplerConfig, space: Space) -> None:
        self._rng = Rng(cfg.seed, "sweep")
        self._space = space

    def choose(self, number: int, known: Sequence[Trial]) -> Params:
        return self._space.random(self._rng.at("trial", number))


class Members(Random):
    """The first members of population based training, by chance; what becomes of them is `pbt`'s to say."""


class Grid:
    """Every combination of the settings, in order."""

    def __init__(self, cfg: SamplerConfig, space: Space) -> None:
        self._combinations = space.grid()

    def choose(self, number: int, known: Sequence[Trial]) -> Params:
        return self._combinations[number]


class Tpe:
    """Tree-structured Parzen estimator (Bergstra et al. 2011), Optuna's. Trials that still run count as mediocre, so
    that several at once do not choose the same."""

    def __init__(self, cfg: SamplerConfig, space: Space) -> None:
        self._optuna = OPTUNA.load("sampler.kind", "tpe")
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        self._cfg = cfg
        self._space = space
        self._rng = Rng(cfg.seed, "sweep")

    def choose(self, number: int, known: Sequence[Trial]) -> Params:
        optuna = self._optuna
        seed = int(self._rng.at("trial", number).integers(2**32))
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self._cfg.startup_trials)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for trial in known:
            study.add_trial(self._as_optuna(trial))
        asked = study.ask()
        params: Params = {}
        for axis in self._space.axes:
            if self._space.active(axis, params):
                params[axis.path] = _value(axis, self._suggest(asked, axis))
        return params

    def _suggest(self, asked: optuna.Trial, axis: Axis) -> float:
        of = self._distribution(axis)
        if axis.choices is not None:
            place: int = asked.suggest_categorical(axis.path, of.choices)
            return place
        suggest = asked.suggest_int if axis.whole else asked.suggest_float
        return suggest(axis.path, of.low, of.high, step=of.step, log=of.log)

    def _as_optuna(self, trial: Trial) -> optuna.trial.FrozenTrial:
        states = self._optuna.trial.TrialState
        state = {
            TrialState.RUNNING: states.RUNNING,
            TrialState.PRUNED: states.PRUNED,
            TrialState.COMPLETED: states.COMPLETE,
            TrialState.FAILED: states.FAIL,
        }[trial.state]
        axes = [axis for axis in self._space.axes if axis.path in trial.params]
        intermediate = {max(trial.results): trial.score} if trial.results and trial.score is not None else {}
        frozen: optuna.trial.FrozenTrial = self._optuna.trial.create_trial(
            state=state,
            value=trial.score if state == states.COMPLETE else None,
            params={axis.path: _coded(axis, trial.params[axis.path]) for axis in axes},
            distributions={axis.path: self._distribution(axis) for axis in axes},
            intermediate_values=intermediate if state == states.PRUNED else {},
        )
        return frozen

    def _distribution(self, axis: Axis) -> Any:
        of = self._optuna.distributions
        if axis.choices is not None:
            return of.CategoricalDistribution(tuple(range(len(axis.choices))))
        if axis.whole:
            low, high = round(axis.low), round(axis.high)
            step = round(axis.step or 1)
            return of.IntDistribution(low, high - (high - low) % step, axis.dimension.log, step)
        if axis.step is not None:
            return of.FloatDistribution(axis.low, axis.low + axis.step * (axis.count() - 1), step=axis.step)
        return of.FloatDistribution(axis.low, axis.high, axis.dimension.log)


def _coded(axis: Axis, value: object) -> object:
    """A choice by its place: Optuna takes no lists."""
    return axis.choices.index(value) if axis.choices is not None else value


def _value(axis: Axis, coded: float) -> object:
    return axis.choices[int(coded)] if axis.choices is not None else axis.fit(coded)


class CmaEs:
    """Covariance matrix adaptation (Hansen 2016, arXiv:1604.00772), over the ranges as numbers in [0, 1]. Trial n is of
    generation n // population; each generation whose trials have all ended is given to the library, in order."""

    def __init__(self, cfg: SamplerConfig, space: Space) -> None:
        self._cmaes = CMAES.load("sampler.kind", "cmaes")
        self._space = space
        self._rng = Rng(cfg.seed, "sweep")
        self.population = population_of(cfg, len(space.axes))

    def choose(self, number: int, known: Sequence[Trial]) -> Params:
        size = len(self._space.axes)
        if size == 1:  # the library wants two; a second one that means nothing is nearly free
            size = 2
        bounds = np.tile([0.0, 1.0], (size, 1))
        core = self._cmaes.CMA(np.full(size, 0.5), SIGMA, bounds=bounds, seed=0, population_size=self.population)
        for generation in range(number // self.population):
            members = known[generation * self.population : (generation + 1) * self.population]
            if len(members) < self.population or any(trial.is_live for trial in members):
                break
            ranked = sorted(members, key=_worst_last)  # only the order counts
            core.tell([(self._point(trial, size), place) for place, trial in enumerate(ranked)])
        core.reseed_rng(int(self._rng.at("trial", number).integers(2**32)))
        point = core.ask()
        return self._space.at({axis.path: float(point[i]) for i, axis in enumerate(self._space.axes)})

    def _point(self, trial: Trial, size: int) -> np.ndarray:
        shares = [axis.share(trial.params[axis.path]) for axis in self._space.axes]
        return np.array([*shares, *[0.5] * (size - len(shares))])


def population_of(cfg: SamplerConfig, dimensions: int) -> int:
    return cfg.population or 4 + math.floor(3 * math.log(max(dimensions, 2)))


def _worst_last(trial: Trial) -> tuple[bool, int, float, int]:
    """A trial that got further is better than one that did not, and a failed one is the worst."""
    is_failed = trial.state == TrialState.FAILED or trial.score is None
    return is_failed, -max(trial.results, default=0), -(trial.score or 0.0), trial.number
