"""Our own worlds as a vector in NumPy: pure dynamics beside a masked autoreset.

A `World` (`core/contracts`) is mathematics without memory. `NativeVecEnv` adds what a vector needs: episode
counting, time limit, per-episode noise, position. At eight envs a step is bound by the number of NumPy calls, so arrays
are reused, truncation is looked at only when some env can be due, and the Step of a quiet step is built once. A
`Kernel` holds the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Array, State, Step, World
from rlstudio.core.errors import OtherEnvironments
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.params.episodes import EpisodeParams, position_of, required
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.envs.worlds.drawn.observed_kernel import ObservedKernel
from rlstudio.envs.worlds.drawn.world_params import WorldParams
from rlstudio.envs.worlds.kernel import NUMPY, Kernel, Refreshed, Values, by_rows, kernel_of, parameters, write


class NativeVecEnv:
    """`num_envs` copies of a World; the arrays of a Step are reused by the next one."""

    vectorization = "native"
    restart_reasons = None
    exact: str | None = None
    restarted: Sequence[int] = ()

    def __init__(
        self,
        world: World[np.ndarray],
        num_envs: int,
        seed: int,
        limit: int | None = None,
        params: Values | WorldParams | None = None,
        first_env: int = 0,
    ) -> None:
        """`params` replace the world's own, by a number for all envs or an array [num_envs]; or they are drawn for each
        episode. Their noise is that of the envs `first_env, first_env + 1, ...` of the run."""
        self._drawn = drawn = params if isinstance(params, WorldParams) else None
        self.episode_params: EpisodeParams | None = None if drawn is None else drawn.episodes
        self.spaces = world.spaces if drawn is None else drawn.spaces(world)
        self.agents = world.agents
        self.num_envs = num_envs * world.agents
        self._worlds = num_envs
        self._seed = seed
        self._first_env = first_env
        self._world: World[np.ndarray] = world
        p = params.p if isinstance(params, WorldParams) else parameters(world, params or {}, num_envs)
        self._p_of = by_rows(p)
        self._limit = limit if limit is not None else world.limit
        self._noise = EpisodeNoise(seed, num_envs, world.noise_size)
        self._kernel: Kernel = kernel_of(world, num_envs, p, changes=drawn is not None)
        if drawn is not None and drawn.observed:
            self._kernel = ObservedKernel(self._kernel, self.spaces.observation, drawn.observed)
        kernel = self._kernel
        self._episodes = np.zeros(num_envs, np.int64)
        self._started = np.zeros(num_envs, np.int64)  # the clock at each episode's first observation
        self._clock = 0
        self._due: float = 0  # the first clock at which an env can reach its limit
        self._truncated = np.zeros(num_envs, bool)
        self._observed = kernel.observations
        self._successors = copied(kernel.observations)
        never = np.zeros(num_envs, bool)
        self._quiet = Step(kernel.observations, kernel.observations, kernel.rewards, never, never, {})
        self._eventful = self._quiet._replace(
            successors=self._successors, terminated=kernel.terminated, truncated=self._truncated
        )

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return f"episode {int(self._episodes[env // self.agents]) - ago} (of env.seed {self._seed})"

    def reset(self) -> Array:
        self._episodes[:] = 0
        self._clock = 0
        self._begin(np.arange(self._worlds))
        self._started[:] = 0
        self._set_due()
        return self._observed

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
        write(self._successors, slice(None), kernel.observations)
        (ended,) = np.logical_or(kernel.terminated, truncated).nonzero()
        if len(ended):
            if self.episode_params is not None:
                self.episode_params.end(ended)
            self._episodes[ended] += 1
            self._begin(ended)
            self._started[ended] = self._clock
            self._set_due()
        return self._eventful

    def _begin(self, envs: np.ndarray) -> None:
        """These envs at the start of their episodes."""
        if self._drawn is not None:
            self._drawn.begin(envs, self._episodes[envs])
            self._refresh()
        noise = self._noise.rows(envs + self._first_env, self._episodes[envs])
        self._kernel.place(envs, self._world.initial(noise, self._p_of(envs), NUMPY))

    def _set_due(self) -> None:
        self._due = float("inf") if self._limit is None else int(self._started.min()) + self._limit

    def _refresh(self) -> None:
        if isinstance(self._kernel, Refreshed):
            self._kernel.refresh()

    def set_draw(self, draw: Draw) -> None:
        required(self.episode_params, self._world.id).set_draw(draw)

    def position(self) -> State:
        return {
            "kind": "state",
            "world": self._world.id,
            "states": self._kernel.states(),
            "episodes": self._episodes.copy(),
            "elapsed": self._clock - self._started,
            **position_of(self.episode_params),
        }

    def seek(self, position: State) -> Array:
        if position.get("kind") != "state" or position.get("world") != self._world.id:
            wanted = position.get("world", position.get("kind"))
            raise OtherEnvironments(f"a position of {wanted} does not fit the native world {self._world.id}")
        if len(position["episodes"]) != self._worlds:
            raise OtherEnvironments(f"a position of {len(position['episodes'])} envs does not fit {self._worlds}")
        self._episodes[:] = position["episodes"]
        self._clock = 0
        self._started[:] = -np.asarray(position["elapsed"])
        if self._drawn is not None and self.episode_params is not None:
            self.episode_params.seek(position.get("params"), self._episodes)
            self._drawn.write_all()
            self._refresh()
        self._kernel.place(np.arange(self._worlds), np.asarray(position["states"]))
        self._set_due()
        return self._observed

    def close(self) -> None:
        """Nothing to release: the arrays go with the object."""


def copied(rows: Array) -> Array:
    return {name: array.copy() for name, array in rows.items()} if isinstance(rows, dict) else rows.copy()
