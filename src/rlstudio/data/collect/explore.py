"""Exploration on top of an agent's actions. The Collector owns it, so evaluation needs no flag."""

from __future__ import annotations

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Acted, Array, Explore, Place, State
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete
from rlstudio.data.collect.noise import NoiseBlocks, Share
from rlstudio.ops.schedules import linear


class Exploration:
    """An Explore at work in a vector of environments: with its noise, and with where in the whole run they stand.
    `envs` are their numbers in it, of `run_envs`. Without an Explore every action is as the agent chose it."""

    def __init__(
        self, explore: Explore | None, rng: Rng, envs: np.ndarray, run_envs: int, share: Share | None = None
    ) -> None:
        self.explore = explore
        self._envs = envs
        self._run_envs = run_envs
        self.remembers = explore is not None and explore.remembers
        if explore is not None:
            self._noise = NoiseBlocks(explore.noise, rng, len(envs), share)

    def __call__(self, acted: Acted, observations: Array, step: int) -> Acted:
        """What is done instead in this vector step."""
        if self.explore is None:
            return acted
        place = Place((step + 1) * self._run_envs, self._envs, self._run_envs)
        actions = self.explore(acted.actions, self._noise.at(step), observations, place)
        return Acted(actions, acted.columns, acted.carry)

    def progress(self, fraction: float) -> None:
        if self.explore is not None:
            self.explore.progress(fraction)

    def forget(self, envs: np.ndarray) -> None:
        if self.explore is not None:
            self.explore.forget(envs)

    def state_dict(self) -> State:
        return {} if self.explore is None else self.explore.state_dict()

    def load_state_dict(self, state: State) -> None:
        if self.explore is not None:
            self.explore.load_state_dict(state)


class EpsilonGreedy:
    """With probability epsilon a uniformly random choice instead of the agent's, of those that the observation's action
    mask allows. Epsilon falls from `start` to `end` until that share of the run is over."""

    remembers = False

    def __init__(self, space: Discrete, start: float, end: float, until: float) -> None:
        self.n = space.n
        self.start, self.end, self.until = start, end, until
        self.epsilon = start
        self._mask = ActionMask((space.n,))

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """[steps, num_envs, 2]: a number that decides whether the action is random, and the random choice."""
        decide = generator.random((steps, num_envs))
        choice = generator.integers(0, self.n, (steps, num_envs))
        return np.stack([decide, choice], -1)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray:
        random = noise[:, 0] < self.epsilon
        if isinstance(observations, dict) and ACTION_MASK in observations:
            return np.where(random, self._among(self._mask.allowed(observations), noise[:, 0]), actions)
        return np.where(random, noise[:, 1].astype(np.int64), actions)

    def _among(self, allowed: np.ndarray, decide: np.ndarray) -> np.ndarray:
        """One of the allowed choices: where it is below epsilon, decide / epsilon is again uniform in [0, 1)."""
        ranks = np.floor(decide / max(self.epsilon, 1e-12) * allowed.sum(-1))
        return (allowed.cumsum(-1) > ranks[:, None]).argmax(-1)  # type: ignore[no-any-return]

    def progress(self, fraction: float) -> None:
        self.epsilon = linear(self.start, self.end, fraction, until=self.until)

    def forget(self, envs: np.ndarray) -> None:
        """Every choice is made on its own."""

    def state_dict(self) -> State:
        return {}  # epsilon follows from the progress, which is told before every step

    def load_state_dict(self, state: State) -> None:
        """Nothing to remember."""


class RandomShare:
    """Uniformly random actions for a share of the steps that grows from environment to environment: from none in the
    first to `share` in the last (a single one has `share`). What is collected is then of every quality."""

    remembers = False

    def __init__(self, space: Box | Discrete, share: float) -> None:
        self.choices = space.n if isinstance(space, Discrete) else None
        bounds: tuple[np.ndarray, np.ndarray] = (np.zeros(1), np.ones(1))
        self.low, self.high = bounds if isinstance(space, Discrete) else space.bounds()
        self.share = share

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """[steps, num_envs, 1 + D]: a number that decides, and those of the random action."""
        return generator.random((steps, num_envs, 1 + self.low.size), np.float32)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Array, place: Place) -> np.ndarray:
        shares = np.full(1, self.share)
        if place.num_envs > 1:
            shares = np.linspace(0.0, self.share, place.num_envs)[place.envs]
        random = noise[:, 0] < shares
        if self.choices is not None:
            return np.where(random, (noise[:, 1] * self.choices).astype(actions.dtype), actions)
        uniform = self.low + noise[:, 1:].reshape(actions.shape) * (self.high - self.low)
        taken: np.ndarray = np.where(random.reshape(-1, *[1] * (actions.ndim - 1)), uniform, actions)
        return taken.astype(actions.dtype, copy=False)

    def progress(self, fraction: float) -> None:
        """The share stays."""

    def forget(self, envs: np.ndarray) -> None:
        """Every step is on its own."""

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None:
        """Nothing to remember."""
