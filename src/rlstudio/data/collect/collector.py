"""Collector: lets an agent act in a vector of environments and writes what happens into a block.

It owns everything that travels with acting: the observations to act on next, the carry, the noise, exploration, episode
statistics and the count of steps. All of it is state, so a run can be cut anywhere between two rollouts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Agent, Array, Carried, Explore, State, Tally, VecEnv
from rlstudio.core.host.process import PULSE
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.carry import without_rows
from rlstudio.data.collect.explore import Exploration
from rlstudio.data.collect.inspection import Inspection
from rlstudio.data.collect.noise import NoiseBlocks
from rlstudio.data.collect.packer import Packer


class Collector:
    """`first_env` and `run_envs`: in the whole run these environments are those from that number on, of so many, which
    is how exploration counts. `column`: where their rows begin among all that are collected for the same learner."""

    def __init__(
        self,
        env: VecEnv,
        agent: Agent,
        rng: Rng,
        explore: Explore | None = None,
        guard: RowGuard | None = None,
        *,
        first_env: int = 0,
        run_envs: int | None = None,
        column: int = 0,
    ) -> None:
        self.env = env
        self.run_envs = run_envs or env.num_envs
        self.column = column
        self.agent = agent
        envs = np.arange(first_env, first_env + env.num_envs)
        self.exploration = Exploration(explore, rng.fork("explore"), envs, self.run_envs)
        self.inspection = Inspection(env, guard or RowGuard(), envs, env.spaces)
        self.vector_steps = 0
        self.carry: Carried | None = None
        self.observations: Array | None = None
        self._noise = NoiseBlocks(agent.noise, rng.fork("noise"), env.num_envs)
        self._packers: dict[int, Packer] = {}
        self._remembers = agent.remembers or self.exploration.remembers

    @property
    def env_steps(self) -> int:
        """Of all environments of the run, which are as far as these."""
        return self.vector_steps * self.run_envs

    def collect(self, steps: int) -> Batch:
        """A rollout [steps, num_envs], valid until the next call with as many steps."""
        packer = self._packers.get(steps)
        if packer is None:
            packer = self._packers[steps] = Packer(self.env.spaces, steps, self.env.num_envs)
        observations = self.env.reset() if self.observations is None else self.observations
        agent, env, first = self.agent, self.env, self.vector_steps
        for t in range(steps):
            acted = agent.step(observations, self.carry, self._noise.at(first + t))
            acted = self.exploration(acted, observations, first + t)
            packer.write_before(t, observations, acted)
            if agent.remembers:
                assert acted.carry is not None
                packer.write_carry(t, self.carry, acted.carry)
            step = env.step(acted.actions)
            PULSE.vector_steps += 1
            packer.write_after(t, step)
            observations, self.carry = step.observations, acted.carry
            if self._remembers and (ended := np.logical_or(step.terminated, step.truncated)).any():
                self._forget(ended.nonzero()[0])
        self.observations = observations
        self.vector_steps += steps
        return self.inspection(packer)

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        """All that is collected here is one fragment."""
        return [(self.column, self.collect(steps))]

    def progress(self, fraction: float) -> None:
        self.exploration.progress(fraction)

    def take(self) -> Tally:
        return self.inspection.take()

    def _forget(self, envs: np.ndarray) -> None:
        """Nothing travels from one episode to the next."""
        self.carry = without_rows(self.carry, envs)
        self.exploration.forget(envs)

    def state_dict(self) -> State:
        return {
            "vector_steps": self.vector_steps,
            "started": self.observations is not None,
            "env": self.env.position() if self.observations is not None else {},
            **self.inspection.state_dict(),
            "carry": {} if self.carry is None else self.carry,
            "explore": self.exploration.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        self.vector_steps = int(state["vector_steps"])
        self.inspection.load_state_dict(state)
        self.carry = state.get("carry") or None  # a checkpoint from before there was one has none
        self.exploration.load_state_dict(state.get("explore", {}))
        if state["started"]:
            self.observations = self.env.seek(state["env"])
            if self.env.restarted:
                envs = np.array(self.env.restarted)
                self._forget(envs)
                self.inspection.forget(envs)
