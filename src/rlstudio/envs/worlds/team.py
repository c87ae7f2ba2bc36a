"""Worlds with several agents as a vector in NumPy: a column for each agent of each environment, side by side.

An episode ends for one agent (`terminated` in its own column) and goes on for the others; when all are out, or at the
time limit, the environment starts anew. `active` is True where an agent acts: False for those who are out or wait for
their turn. Who waits is still in its episode: what it is paid and the end of the episode stand in the row in which they
happen, and belong to its last action (`data/collect/turns.py`). Who is out is paid nothing.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array, State, Step, World
from rlstudio.core.spaces import Spaces
from rlstudio.envs.worlds.drawn.world_params import WorldParams
from rlstudio.envs.worlds.kernel import Values, write
from rlstudio.envs.worlds.native import NativeVecEnv


class TeamVecEnv(NativeVecEnv):
    """`num_envs` counts columns: agent a of environment e is column e * agents + a. A World may name its agents
    (`agent_names`) and say what each of them is really shown and takes (`agent_spaces`, see `NamedAgents`)."""

    def __init__(
        self,
        world: World[np.ndarray],
        num_envs: int,
        seed: int,
        limit: int | None = None,
        params: Values | WorldParams | None = None,
        first_env: int = 0,
    ) -> None:
        super().__init__(world, num_envs, seed, limit, params, first_env)
        self.agent_names: tuple[str, ...] = tuple(getattr(world, "agent_names", numbered_names(world.agents)))
        self.agent_spaces: tuple[Spaces, ...] = tuple(getattr(world, "agent_spaces", (world.spaces,) * world.agents))
        self._shape = num_envs, world.agents
        self._out = np.zeros(self._shape, bool)  # agents whose episode is over while the others go on
        self._acted = np.zeros(self._shape, bool)  # agents that acted in this episode; kept where parameters are drawn
        self._observed = self._columns(self._kernel.observations)
        self._successors = self._columns(self._successors)

    def reset(self) -> Array:
        self._out[:] = False
        self._acted[:] = False
        return super().reset()

    def step(self, actions: np.ndarray) -> Step:
        kernel = self._kernel
        kernel.advance(actions.reshape(*self._shape, *actions.shape[1:]))
        self._clock += 1
        due = self._clock - self._started >= (np.inf if self._limit is None else self._limit)
        going_on = ~self._out
        terminated = kernel.terminated & going_on
        truncated = due[:, None] & going_on & ~terminated
        active = going_on if kernel.active is None else kernel.active & going_on
        rewards = np.where(going_on, kernel.rewards, np.float32(0.0))
        write(self._successors, slice(None), self._observed)
        if self.episode_params is not None:  # of an agent that never acted no episode is reported
            self._acted |= active
            envs, agents = ((terminated | truncated) & self._acted).nonzero()
            self.episode_params.end(envs, envs * self.agents + agents)
        self._out |= terminated
        (ended,) = (due | self._out.all(1)).nonzero()
        if len(ended):
            self._acted[ended] = False
            self._episodes[ended] += 1
            self._begin(ended)
            self._started[ended] = self._clock
            self._out[ended] = False
        ends = terminated.reshape(-1), truncated.reshape(-1)
        return Step(self._observed, self._successors, rewards.reshape(-1), *ends, {}, active.reshape(-1))

    def position(self) -> State:
        acted = {} if self.episode_params is None else {"acted": self._acted.copy()}
        return {**super().position(), "out": self._out.copy(), **acted}

    def seek(self, position: State) -> Array:
        observations = super().seek(position)
        self._out[:] = position["out"]
        self._acted[:] = position.get("acted", False)
        return observations

    def _columns(self, rows: Array) -> Array:
        """Rows [B, agents, ...] as columns, sharing their memory."""
        if isinstance(rows, dict):
            return {name: array.reshape(self.num_envs, *array.shape[2:]) for name, array in rows.items()}
        return rows.reshape(self.num_envs, *rows.shape[2:])


def numbered_names(agents: int) -> tuple[str, ...]:
    """Of agents that their World does not name."""
    return tuple(f"agent_{number}" for number in range(agents))
