"""Our own worlds as a vector in NumPy: pure dynamics beside a masked autoreset.

A `World` is mathematics without memory: its functions take and give arrays with any leading dimensions and run on NumPy
and on torch (`xp` is the module), so a planner can call the same dynamics that the training env steps. A world with
randomness keeps its dice in the state, which keeps `dynamics` pure.

`NativeVecEnv` adds what a vector needs: episode counting, time limit, per-episode noise, position. At eight envs a step
is bound by the number of NumPy calls, so arrays are reused, truncation is looked at only when some env can be due, and
the Step of a quiet step is built once. A `Kernel` holds the arrays; a world may bring a faster one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from rlstudio.core.contracts import State, Step
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Space, Spaces
from rlstudio.envs.seeds import EpisodeNoise


class Transition(NamedTuple):
    states: Any  # [..., S]
    rewards: Any  # [...]
    terminated: Any  # [...] bool


class World(Protocol):
    """Dims: S numbers of state, K uniform numbers that start an episode."""

    id: str
    spaces: Spaces
    state_size: int
    noise_size: int
    limit: int | None  # steps after which an episode is truncated

    def initial(self, noise: Any, xp: Any = np) -> Any:
        """First states [..., S] from uniform noise [..., K]."""
        ...

    def dynamics(self, states: Any, actions: Any, xp: Any = np) -> Transition: ...

    def observe(self, states: Any, xp: Any = np) -> Any: ...

    def kernel(self, num_envs: int) -> Kernel: ...


class Kernel(Protocol):
    """The arrays of `num_envs` copies of a world, changed in place."""

    observations: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray

    def advance(self, actions: np.ndarray) -> None:
        """One step of all envs, into the arrays above."""
        ...

    def states(self) -> np.ndarray:
        """The states [B, S], a copy."""
        ...

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        """Put these envs into these states and show them."""
        ...


class PlainKernel:
    """The kernel of any world: its pure functions, results copied into the reused arrays."""

    def __init__(self, world: World, num_envs: int) -> None:
        self._world = world
        self._states = np.zeros((num_envs, world.state_size))
        self.observations = empty_rows(world.spaces.observation, num_envs)
        self.rewards = np.zeros(num_envs, np.float32)
        self.terminated = np.zeros(num_envs, bool)

    def advance(self, actions: np.ndarray) -> None:
        self._states, rewards, terminated = self._world.dynamics(self._states, actions)
        self.rewards[:] = rewards
        self.terminated[:] = terminated
        self.observations[:] = self._world.observe(self._states)

    def states(self) -> np.ndarray:
        return self._states.copy()

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        self._states[envs] = states
        self.observations[envs] = self._world.observe(states)


def empty_rows(space: Space, num_envs: int) -> np.ndarray:
    if not isinstance(space, Box):
        raise TypeError(f"native worlds show a Box, not {space}")
    return np.zeros((num_envs, *space.shape), space.dtype)


def one_hot(indices: Any, n: int, xp: Any) -> Any:
    """Whole numbers [...] as rows [..., n] of zeros and a one."""
    return (xp.arange(n, device=indices.device) == indices[..., None]) * 1.0


class NativeVecEnv:
    """`num_envs` copies of a World; the arrays of a Step are reused by the next one."""

    vectorization = "native"
    exact: str | None = None
    restarted: Sequence[int] = ()

    def __init__(self, world: World, num_envs: int, seed: int, limit: int | None = None) -> None:
        self.spaces = world.spaces
        self.num_envs = num_envs
        self._world = world
        self._limit = limit if limit is not None else world.limit
        self._noise = EpisodeNoise(seed, num_envs, world.noise_size)
        self._kernel = kernel = world.kernel(num_envs)
        self._episodes = np.zeros(num_envs, np.int64)
        self._started = np.zeros(num_envs, np.int64)  # the clock at each episode's first observation
        self._clock = 0
        self._due: float = 0  # the first clock at which an env can reach its limit
        self._truncated = np.zeros(num_envs, bool)
        self._successors = kernel.observations.copy()
        never = np.zeros(num_envs, bool)
        self._quiet = Step(kernel.observations, kernel.observations, kernel.rewards, never, never, {})
        self._eventful = self._quiet._replace(
            successors=self._successors, terminated=kernel.terminated, truncated=self._truncated
        )

    def reset(self) -> np.ndarray:
        self._episodes[:] = 0
        self._clock = 0
        all_envs = np.arange(self.num_envs)
        self._kernel.place(all_envs, self._world.initial(self._noise.rows(all_envs, self._episodes)))
        self._started[:] = 0
        self._set_due()
        return self._kernel.observations

    def step(self, actions: np.ndarray) -> Step:
        kernel = self._kernel
        kernel.advance(actions)
        self._clock += 1
        if self._clock < self._due and b"\1" not in kernel.terminated.tobytes():  # five times quicker than any()
            return self._quiet
        return self._finish_episodes()

    def _finish_episodes(self) -> Step:
        truncated, kernel = self._truncated, self._kernel
        if self._limit is not None:
            np.greater_equal(self._clock - self._started, self._limit, out=truncated)
        np.copyto(self._successors, kernel.observations)
        (ended,) = np.logical_or(kernel.terminated, truncated).nonzero()
        if len(ended):
            self._episodes[ended] += 1
            kernel.place(ended, self._world.initial(self._noise.rows(ended, self._episodes[ended])))
            self._started[ended] = self._clock
            self._set_due()
        return self._eventful

    def _set_due(self) -> None:
        self._due = float("inf") if self._limit is None else int(self._started.min()) + self._limit

    def position(self) -> State:
        return {
            "kind": "state",
            "world": self._world.id,
            "states": self._kernel.states(),
            "episodes": self._episodes.copy(),
            "elapsed": self._clock - self._started,
        }

    def seek(self, position: State) -> np.ndarray:
        if position.get("kind") != "state" or position.get("world") != self._world.id:
            wanted = position.get("world", position.get("kind"))
            raise Incompatible(f"a position of {wanted} does not fit the native world {self._world.id}")
        if len(position["episodes"]) != self.num_envs:
            raise Incompatible(f"a position of {len(position['episodes'])} envs does not fit {self.num_envs}")
        self._episodes[:] = position["episodes"]
        self._clock = 0
        self._started[:] = -np.asarray(position["elapsed"])
        self._kernel.place(np.arange(self.num_envs), np.asarray(position["states"]))
        self._set_due()
        return self._kernel.observations

    def close(self) -> None:
        """Nothing to release: the arrays go with the object."""
