"""EnvPool's C++ worlds behind the vector contract (`vectorization: envpool`): many envs, stepped by threads.

EnvPool resets an ended env in the step after, with a row that is no transition. Here the ended ones are reset at once,
by a call for these alone, so every row is a transition, `successors` holds an episode's last observation and
`observations` the next one's first. Time limits are counted here: EnvPool calls a death in the very last step a
truncation.

An env is seeded when its pool is made and never again, and no state can be read: `seek` can only make a new pool, with
seeds that no earlier one had, and every open episode begins anew. `exact` says so from the start.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstudio.core.contracts import Array, State, Step
from rlstudio.core.errors import ConfigError, suggest
from rlstudio.core.host.extras import Extra
from rlstudio.envs.envpool.envpool_task import Task, pool_task
from rlstudio.envs.gym.plain_env import check_spaces, plain_spaces
from rlstudio.envs.gym.recipe import Recipe, one_line
from rlstudio.envs.gym.rows import Buffers
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.new_episodes import new_episodes
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.envs.worlds.kernel import write

ENVPOOL = Extra("envpool", "envpool")
NEVER = 2**62  # a limit no episode reaches


class EnvPoolVecEnv:
    """The arrays of a Step are reused by the next one."""

    vectorization = "envpool"
    agents = 1
    restart_reasons = None
    exact: str | None = (
        "EnvPool can neither seed nor replay an episode; a resumed run goes on with new episodes from new seeds"
    )

    def __init__(self, recipe: Recipe, num_envs: int, seed: int, first_env: int = 0) -> None:
        """In the run these envs have the numbers from `first_env` on."""
        self._envpool: Any = ENVPOOL.load("env.vectorization", "envpool")
        self._task = task = pool_task(recipe)
        if task.id not in self._envpool.list_all_envs():
            raise ConfigError(f"env.vectorization: EnvPool has no {task.id}; use sync or async")
        self.spaces = plain_spaces(recipe)  # bounds of EnvPool's own are at times empty
        self.num_envs, self._first_env = num_envs, first_env
        self.restarted: Sequence[int] = ()
        self._seeds = EpisodeNoise(seed, num_envs, 1)
        self._limit = NEVER if task.limit is None else task.limit
        self._episodes = np.zeros(num_envs, np.int64)
        self._started = np.zeros(num_envs, np.int64)  # the clock at each episode's first observation
        self._clock = 0
        self._rows = rows = Buffers(self.spaces, num_envs)
        self._quiet = rows.quiet_step()
        self._eventful = self._quiet._replace(successors=rows.successors)
        self._pool = self._made()
        check_spaces(self.spaces, convert_spaces(self._pool, recipe.cfg.id), f"EnvPool's {task.id}")
        if self.spaces.infos:
            check_infos(self.spaces.infos, self._pool.reset()[1], task)

    def _made(self) -> Any:
        """A new pool, each env seeded by its number and the episode it begins with."""
        seeds = [self._seeds.seed(env, int(episode)) for env, episode in enumerate(self._episodes, self._first_env)]
        limit = {} if self._task.limit is None else {"max_episode_steps": self._task.limit + 1}  # never reached there
        try:
            pool = self._envpool.make_gymnasium(
                self._task.id, num_envs=self.num_envs, env_seed=seeds, **limit, **self._task.options
            )
            with warnings.catch_warnings(action="ignore"):  # bounds lose digits; they are not used
                _ = pool.observation_space  # made when first asked for
            return pool
        except Exception as error:
            raise ConfigError(
                f"env.kwargs: EnvPool's {self._task.id} refuses {self._task.options}: {one_line(error)}"
            ) from error

    # -- the vector contract ----------------------------------------------------------------------------------------

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return f"episode {int(self._episodes[env]) - ago}"  # EnvPool seeds no episode

    def reset(self) -> Array:
        self._episodes[:] = 0
        self.restarted = ()
        return self._begin()

    def step(self, actions: np.ndarray) -> Step:
        rows = self._rows
        observations, rows.rewards[:], rows.terminated[:], rows.truncated[:], info = self._pool.step(actions)
        for key, column in rows.infos.items():
            column[:] = info[key]
        self._clock += 1
        rows.truncated |= self._clock - self._started >= self._limit
        ended = rows.ended()
        if ended is None:
            write(rows.observations, slice(None), observations)
            return self._quiet
        write(rows.successors, slice(None), observations)
        write(rows.observations, slice(None), observations)
        (envs,) = ended.nonzero()
        first, begun = self._pool.reset(envs.astype(np.int32))
        write(rows.observations, begun["env_id"], first)
        self._episodes[envs] += 1
        self._started[envs] = self._clock
        return self._eventful

    def position(self) -> State:
        return {
            "kind": "envpool",
            "id": self._task.id,
            "episodes": self._episodes.copy(),
            "elapsed": self._clock - self._started,
        }

    def seek(self, position: State) -> Array:
        """New episodes in every env; those that were in the middle of one are `restarted`."""
        id = self._task.id
        self._episodes[:], self.restarted = new_episodes(position, "envpool", id, self.num_envs, "EnvPool's")
        return self._begin()

    def _begin(self) -> Array:
        self._pool = self._made()
        self._clock = 0
        self._started[:] = 0
        observations, _ = self._pool.reset()
        write(self._rows.observations, slice(None), observations)
        return self._rows.observations

    def close(self) -> None:
        """Its threads end with the object."""
        self._pool = None


def check_infos(wanted: tuple[str, ...], info: dict[str, object], task: Task) -> None:
    """EnvPool gives the same keys in every step, so one that it has not is a mistake."""
    offered = sorted(key for key, value in info.items() if isinstance(value, np.ndarray) and value.ndim == 1)
    for key in wanted:
        if key not in offered:
            near = suggest(key, offered) or ";"
            raise ConfigError(
                f"env.infos: EnvPool's {task.id} gives no number {key!r}{near} it has: {', '.join(offered)}"
            )
