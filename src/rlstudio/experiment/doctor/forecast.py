"""How fast a run will be and how long it will take, by a short trial of the run itself. Nothing is written.

    time = warm-up steps at their rate + the other steps at the rate of learning + evaluations

In the trial a replay is learned from after a few steps, so that learning is timed too. How long the episodes of a
policy will be that is still to be learned is not known: where steps pay, they are taken to last to the time limit,
elsewhere as long as with random actions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from math import ceil, inf

from rlstudio.algos.parts.config import OffPolicyConfig, RunLength
from rlstudio.core.contracts import Player, WarmsUp
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.doctor.random_play import Clock, Experience
from rlstudio.experiment.judging.evaluate import Evaluator
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.experiment.training.run_curriculum import curriculum_of

FEWEST_WARM_UP_STEPS = 256
"""Of the trial: as many as it takes to time them."""

LONG_TICK = 4.0
SLOW_STEP = 0.1
"""Seconds."""

LONGEST_ROLLOUT = 20.0
"""Seconds that one rollout of the trial may take."""

TIMED_STEPS, TIMED_SECONDS = 200, 1.0
"""Of an evaluation, at most."""


@dataclass(frozen=True)
class Forecast:
    env_steps: int
    steps_per_second: float  # while it learns
    training_seconds: float
    evaluation_seconds: float

    @property
    def seconds(self) -> float:
        """Of the whole run, after its start."""
        return self.training_seconds + self.evaluation_seconds


class _Pace:
    """How long environment steps take. The first tick, which also fills caches, counts where it is the only one."""

    def __init__(self) -> None:
        self._ticks: list[tuple[int, float]] = []

    def add(self, steps: int, seconds: float) -> None:
        self._ticks.append((steps, seconds))

    def has(self, seconds: float) -> bool:
        """Whether that much was timed, in two ticks at least; one that is very long is enough by itself."""
        spent = sum(spent for _, spent in self._ticks)
        return spent >= (seconds if len(self._ticks) > 1 else LONG_TICK * seconds)

    @property
    def seconds_per_step(self) -> float:
        ticks = self._ticks[1:] or self._ticks
        steps = sum(count for count, _ in ticks)
        return sum(spent for _, spent in ticks) / steps if steps else 0.0


def forecast_of_slow_steps(cfg: ExperimentConfig, met: Experience) -> Forecast | None:
    """Where a trial would take longer than anybody waits: from the time of a step alone, nearly all of it then. None
    where a trial is short enough."""
    per_step = met.seconds_per_step / _at_once(cfg)
    rows = cfg.env.num_envs * (getattr(cfg.train, "rollout_steps", None) or 1)
    if met.seconds_per_step <= SLOW_STEP and rows * per_step <= LONGEST_ROLLOUT:
        return None
    planned, length = cfg.train.planned_steps, _episode_length(cfg, met) or 0.0
    evaluating = sum(episodes * count for episodes, count in _evaluations(cfg)) * length * met.seconds_per_step
    return Forecast(planned, 1 / per_step, planned * per_step, evaluating)


def _at_once(cfg: ExperimentConfig) -> int:
    """How many environments step at the same time."""
    if cfg.rollout.workers is not None:
        return cfg.rollout.workers
    if cfg.env.vectorization == "async":
        return min(cfg.env.num_envs, cfg.env.workers or len(os.sched_getaffinity(0)))
    return cfg.runtime.learners


def _evaluations(cfg: ExperimentConfig) -> Iterator[tuple[int, int]]:
    """Episodes of an evaluation, and how many there are of them."""
    if cfg.eval.every_epochs:
        yield cfg.eval.episodes, cfg.train.epochs // cfg.eval.every_epochs + int(cfg.eval.at_start)
    yield cfg.eval.final_episodes, 1


def forecast(cfg: ExperimentConfig, met: Experience | None, clock: Clock, seconds: float = 4.0) -> Forecast:
    """The trial learns for about so long. `met`: what random actions met, for the length of episodes."""
    short = cfg.model_copy(update={"train": _sooner(cfg.train, cfg.env.num_envs)})
    warm, learning = _Pace(), _Pace()
    with closing(build(short)) as built:
        trainer, source = built.trainer, built.trainer.source
        warms_up = source if isinstance(source, WarmsUp) else None
        before, steps = clock(), source.env_steps
        pace = warm if warms_up is not None and warms_up.is_warming else learning
        for tick in train(trainer, short.train, Position(curriculum_of(short, built.runtime))):
            now = clock()
            pace.add(tick.env_steps - steps, now - before)
            if learning.has(seconds):
                break
            before, steps = now, tick.env_steps
            pace = warm if warms_up is not None and warms_up.is_warming else learning
        judging = _evaluation_seconds(cfg, trainer.agent, met, clock)
    per_step = learning.seconds_per_step
    planned = cfg.train.planned_steps
    starts = min(cfg.train.learning_starts, planned) if isinstance(cfg.train, OffPolicyConfig) else 0
    training = starts * warm.seconds_per_step + (planned - starts) * per_step
    return Forecast(planned, 1 / per_step if per_step else inf, training, judging)


def _sooner(train: RunLength, num_envs: int) -> RunLength:
    """The section with a warm-up that is long enough to be timed and no longer."""
    if not isinstance(train, OffPolicyConfig):
        return train
    least = max(train.batch_size, FEWEST_WARM_UP_STEPS, train.n_step * num_envs, train.train_every)
    return train.model_copy(update={"learning_starts": min(train.learning_starts, least)})


def _evaluation_seconds(cfg: ExperimentConfig, agent: Player, met: Experience | None, clock: Clock) -> float:
    length = _episode_length(cfg, met)
    if length is None:
        return 0.0
    total = 0.0
    for episodes, count in _evaluations(cfg):
        opponents = cfg.eval.opponents
        with Evaluator(cfg.eval_env, episodes=episodes, seed=cfg.env.seed, opponents=opponents) as evaluator:
            rounds = ceil(episodes / evaluator.num_envs)
            total += count * rounds * length * _evaluation_step_seconds(evaluator, agent, clock)
    return total


def _evaluation_step_seconds(evaluator: Evaluator, agent: Player, clock: Clock) -> float:
    """Of all environments of an evaluation together."""
    began, steps = clock(), 0
    for steps, _ in enumerate(evaluator.play(agent)):
        if not steps:
            began = clock()  # the environments were made just before
        elif steps >= TIMED_STEPS or clock() - began > TIMED_SECONDS:
            break
    return (clock() - began) / max(steps, 1)


def _episode_length(cfg: ExperimentConfig, met: Experience | None) -> float | None:
    limit = None if is_pettingzoo(cfg.env.id) else Recipe(cfg.eval_env).limit
    pays = met is not None and len(met.all_rewards()) and met.all_rewards().mean() > 0
    if limit is not None and pays:
        return float(limit)
    return (None if met is None else met.mean_length) or limit
