"""Exploration on top of an agent's actions. The Collector owns it, so evaluation needs no flag."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array, State
from rlstudio.core.spaces import Discrete


class EpsilonGreedy:
    """With probability epsilon a uniformly random choice instead of the agent's. The trainer sets `epsilon`."""

    remembers = False

    def __init__(self, space: Discrete, epsilon: float) -> None:
        self.n = space.n
        self.epsilon = epsilon

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """[steps, num_envs, 2]: a number that decides, and the random choice."""
        decide = generator.random((steps, num_envs))
        choice = generator.integers(0, self.n, (steps, num_envs))
        return np.stack([decide, choice], -1)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array) -> np.ndarray:
        return np.where(noise[:, 0] < self.epsilon, noise[:, 1].astype(np.int64), actions)

    def forget(self, envs: np.ndarray) -> None:
        """Every choice is made on its own."""

    def state_dict(self) -> State:
        return {}  # epsilon is set by the trainer before every step

    def load_state_dict(self, state: State) -> None:
        """Nothing to remember."""
