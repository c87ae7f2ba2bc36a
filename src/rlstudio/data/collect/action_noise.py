"""Exploration in continuous actions: noise on top of what the agent chose; and for all, a start that is random.

Standard deviations are shares of half the width of each bound, so 0.1 means the same in every environment.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from rlstudio.core.contracts import Array, Explore, Place, State
from rlstudio.core.spaces import Box, Discrete


class GaussianNoise:
    """Independent noise for each step: a + N(0, std^2), clipped to the bounds."""

    remembers = False

    def __init__(self, space: Box, std: float) -> None:
        self.shape = space.shape
        self.low, self.high = space.bounds()
        self.std = std * (self.high - self.low) / 2

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        return generator.standard_normal((steps, num_envs, *self.shape), np.float32)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray:
        return self._pushed(actions, self.std * noise)

    def _pushed(self, actions: np.ndarray, by: np.ndarray) -> np.ndarray:
        pushed: np.ndarray = np.clip(actions + by, self.low, self.high)
        return pushed.astype(actions.dtype, copy=False)

    def progress(self, fraction: float) -> None:
        """The noise stays as wide."""

    def forget(self, envs: np.ndarray) -> None:
        """Every step is on its own."""

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None:
        """Nothing to remember."""


class OrnsteinUhlenbeck(GaussianNoise):
    """Noise that drifts: dx = -x dt / steps + std sqrt(2 / steps) dW, from zero at the start of every episode.

    Neighbouring steps are pushed the same way, which reaches further in worlds with inertia (Uhlenbeck and Ornstein
    1930; Lillicrap et al. 2016, arXiv:1509.02971). Solved exactly for one step, so that in the long run x has the
    standard deviation `std` whatever `steps` is, and x(t + k) correlates with x(t) by exp(-k / steps). The usual theta,
    sigma and dt are steps = 1 / (theta dt) and std = sigma / sqrt(2 theta).
    """

    remembers = True

    def __init__(self, space: Box, std: float, steps: float) -> None:
        super().__init__(space, std)
        self.keep = exp(-1.0 / steps)
        self.push = self.std * sqrt(1.0 - self.keep**2)
        self.drift = np.zeros((0, *space.shape), np.float32)  # a row per environment, once there are some

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray:
        before = self.drift if len(self.drift) else np.zeros(actions.shape, np.float32)
        self.drift = (self.keep * before + self.push * noise).astype(np.float32, copy=False)
        return self._pushed(actions, self.drift)

    def forget(self, envs: np.ndarray) -> None:
        if len(self.drift):
            self.drift[envs] = 0.0

    def state_dict(self) -> State:
        return {"drift": self.drift.copy()}

    def load_state_dict(self, state: State) -> None:
        self.drift = np.array(state["drift"], np.float32)


class RandomStart:
    """Uniformly random actions for the first `steps` environment steps, then `after` (None: the agent as it is)."""

    def __init__(self, space: Box | Discrete, steps: int, after: Explore | None = None) -> None:
        self.choices = space.n if isinstance(space, Discrete) else None
        bounds: tuple[np.ndarray, np.ndarray] = (np.zeros(1), np.ones(1))
        self.low, self.high = bounds if isinstance(space, Discrete) else space.bounds()
        self.steps = steps
        self.after = after
        self.remembers = after is not None and after.remembers

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """[steps, num_envs, D or 2 D]: what makes an action at the start, and what `after` wants."""
        uniform = generator.random((steps, num_envs, *self.low.shape), np.float32)
        if self.after is None:
            return uniform
        return np.concatenate((uniform, self.after.noise(generator, steps, num_envs)), -1)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray:
        size = len(self.low)
        if place.env_steps <= self.steps:
            uniform: np.ndarray = self.low + noise[:, :size] * (self.high - self.low)
            if self.choices is not None:
                uniform = uniform[:, 0] * self.choices
            return uniform.astype(actions.dtype, copy=False)
        return actions if self.after is None else self.after(actions, noise[:, size:], observations, place)

    def progress(self, fraction: float) -> None:
        if self.after is not None:
            self.after.progress(fraction)

    def forget(self, envs: np.ndarray) -> None:
        if self.after is not None:
            self.after.forget(envs)

    def state_dict(self) -> State:
        return {"after": {} if self.after is None else self.after.state_dict()}

    def load_state_dict(self, state: State) -> None:
        if self.after is not None:
            self.after.load_state_dict(state["after"])
