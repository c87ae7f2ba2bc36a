"""Random actions in the run's own training environments: how large what they show and pay is, how episodes end, and how
long a step takes. Everything but the time is a pure function of the config."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from statistics import median

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Acted, Array, Carried, Step
from rlstudio.core.spaces import Box, Dict, Leaf, Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import permitted, random_actions
from rlstudio.envs.make import make_vec_env, resolve_vectorization
from rlstudio.experiment.judging.play import play

COPIES = 8
"""Environments that are played at most: with more, a few steps would be enough steps and too few episodes."""

BLOCK = 256  # actions that are drawn at once

Clock = Callable[[], float]


@dataclass(frozen=True)
class PlayAmount:
    """At least so many steps and whole episodes; no more than `most_steps`, and none after `seconds`."""

    steps: int = 2000
    episodes: int = 16
    most_steps: int = 12_000
    seconds: float = 5.0


@dataclass
class Numbers:
    """One entry of what an environment shows: the sizes of its numbers."""

    name: str
    bounded: bool
    squares: np.ndarray
    rows: int = 0
    first: np.ndarray | None = None
    changes: bool = False  # whether any row differs from the first

    @property
    def rms(self) -> np.ndarray:
        return np.sqrt(self.squares / max(self.rows, 1))

    def add(self, values: np.ndarray) -> None:
        flat = values.reshape(len(values), -1).astype(np.float64)
        self.squares += np.square(flat).sum(0)
        self.rows += len(flat)
        if self.first is None:
            self.first = flat[0].copy()
        self.changes = self.changes or not bool((flat == self.first).all())


@dataclass
class Experience:
    """What random actions met. Lengths are those of whole episodes."""

    agents: int
    entries: list[Numbers]  # of what an environment shows
    steps: int = 0  # of environments, all copies together
    rewards: list[np.ndarray] = field(default_factory=list)
    terminated: list[int] = field(default_factory=list)
    truncated: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of one step of one environment
    reset_seconds: float = 0.0  # of one reset of one environment

    @property
    def lengths(self) -> list[int]:
        return self.terminated + self.truncated

    @property
    def longest(self) -> int:
        """Steps of the longest episode, also of one that has not ended."""
        return max(self.lengths, default=self.steps)

    @property
    def mean_length(self) -> float | None:
        """None where no episode ended."""
        return float(np.mean(self.lengths)) if self.lengths else None

    @property
    def seconds_per_step(self) -> float:
        """With the share of a reset that falls on a step."""
        step = median(self.seconds) if self.seconds else 0.0
        return step + (self.reset_seconds / self.mean_length if self.mean_length else 0.0)

    def all_rewards(self) -> np.ndarray:
        return np.concatenate(self.rewards) if self.rewards else np.zeros(0)

    def add(self, step: Step, ended: np.ndarray, lengths: np.ndarray) -> None:
        rewards = step.rewards if step.active is None else step.rewards[step.active]
        self.rewards.append(np.array(rewards, np.float64))
        for entry, values in zip(self.entries, _numbers(step.successors, self.entries), strict=True):
            entry.add(values)
        for env in ended.tolist():
            (self.terminated if step.terminated[env] else self.truncated).append(int(lengths[env]))


class RandomActions:
    """A player that does anything the environment allows."""

    def __init__(self, spaces: Spaces, num_envs: int, seed: int) -> None:
        self._mask = ActionMask.of(spaces)
        self._drawn = [_endless(spaces, seed + env) for env in range(num_envs)]

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        actions = [permitted(self._mask, observations, env, next(drawn)) for env, drawn in enumerate(self._drawn)]
        return Acted(np.array(actions), {}, carry)


def play_randomly(cfg: EnvConfig, clock: Clock, amount: PlayAmount) -> Experience:
    """Play the environments of a section `env`, as they train but for worker processes."""
    kind = resolve_vectorization(cfg)
    copies = min(cfg.num_envs, COPIES)
    with closing(make_vec_env(cfg, copies, vectorization="sync" if kind == "async" else kind)) as env:
        experience = Experience(env.agents, [_entry(name, leaf) for name, leaf in _rows_of_numbers(env.spaces)])
        before = clock()
        observations = env.reset()
        began = clock()
        experience.reset_seconds = (began - before) / copies
        before = began
        for played in play(RandomActions(env.spaces, env.num_envs, cfg.seed), env, observations):
            now = clock()
            experience.seconds.append((now - before) / copies)
            experience.steps += copies
            experience.add(played.step, played.ended, played.lengths)
            enough = experience.steps >= amount.steps and len(experience.lengths) >= amount.episodes
            if enough or experience.steps >= amount.most_steps or now - began >= amount.seconds:
                break
            before = clock()
    return experience


def _endless(spaces: Spaces, seed: int) -> Iterator[int | np.ndarray]:
    for block in count():
        yield from random_actions(spaces, seed + 1000 * block, BLOCK)


def _rows_of_numbers(spaces: Spaces) -> Iterator[tuple[str, Box]]:
    """What reaches a network as numbers: neither images nor choices."""
    entries: tuple[tuple[str, Leaf], ...]
    observation = spaces.observation
    entries = observation.items() if isinstance(observation, Dict) else (("", observation),)
    for name, leaf in entries:
        if isinstance(leaf, Box) and not leaf.is_image and name != "action_mask":
            yield name, leaf


def _entry(name: str, leaf: Box) -> Numbers:
    return Numbers(name, leaf.bounded, np.zeros(leaf.size))


def _numbers(observations: Array, entries: list[Numbers]) -> Iterator[np.ndarray]:
    for entry in entries:
        yield observations[entry.name] if isinstance(observations, dict) else observations
