"""VectorActor lets an agent act in a vector of environments and writes what happens into a block; a Collector does the
same and inspects every block.

They own everything that travels with acting: the observations to act on next, the carry, the noise, exploration, the
count of steps, and in a Collector episode statistics. All of it is state, so a run can be cut anywhere between two
rollouts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Agent, Array, Carried, Contributor, Explore, State, Tally, VecEnv
from rlstudio.core.host.process import PULSE
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.carry import without_rows
from rlstudio.data.collect.explore import Exploration
from rlstudio.data.collect.inspection import Inspection
from rlstudio.data.collect.noise import NoiseBlocks, Share
from rlstudio.data.collect.packer import Packer


class VectorActor:
    """`first_env` and `run_envs`: in the whole run these environments are those from that number on, of so many, which
    is how exploration counts. `share`: of the environments that draw their noise together, where they are not all."""

    def __init__(
        self,
        env: VecEnv,
        agent: Agent,
        rng: Rng,
        explore: Explore | None = None,
        *,
        first_env: int = 0,
        run_envs: int | None = None,
        share: Share | None = None,
    ) -> None:
        self.env = env
        self.run_envs = run_envs or env.num_envs
        self.agent = agent
        self.envs = np.arange(first_env, first_env + env.num_envs)
        self.exploration = Exploration(explore, rng.fork("explore"), self.envs, self.run_envs, share)
        self.vector_steps = 0
        self.carry: Carried | None = None
        self.observations: Array | None = None
        self._noise = NoiseBlocks(agent.noise, rng.fork("noise"), env.num_envs, share)
        self._packers: dict[int, Packer] = {}
        self._remembers = agent.remembers or self.exploration.remembers

    def fill(self, steps: int) -> Packer:
        """A block of [steps, num_envs], valid until the next call with as many steps."""
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
        return packer

    def progress(self, fraction: float) -> None:
        self.exploration.progress(fraction)

    def _forget(self, envs: np.ndarray) -> None:
        """Nothing travels from one episode to the next."""
        self.carry = without_rows(self.carry, envs)
        self.exploration.forget(envs)

    def state_at(self, position: State) -> State:
        """The state where the environments are at this position of theirs."""
        return {
            "vector_steps": self.vector_steps,
            "started": self.observations is not None,
            "env": position,
            "carry": {} if self.carry is None else self.carry,
            "explore": self.exploration.state_dict(),
        }

    def state_dict(self) -> State:
        return self.state_at(self.env.position() if self.observations is not None else {})

    def load_state_dict(self, state: State) -> None:
        self.vector_steps = int(state["vector_steps"])
        self.carry = state.get("carry") or None  # a checkpoint from before there was one has none
        self.exploration.load_state_dict(state.get("explore", {}))
        if state["started"]:
            self.observations = self.env.seek(state["env"])
            if self.env.restarted:
                self._forget(np.array(self.env.restarted))


class Collector(VectorActor):
    """`column`: where the rows of these environments begin among all that are collected for the same learner."""

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
        super().__init__(env, agent, rng, explore, first_env=first_env, run_envs=run_envs)
        self.column = column
        self.inspection = Inspection(env, guard or RowGuard(), self.envs, env.spaces)

    @property
    def env_steps(self) -> int:
        """Of all environments of the run, which are as far as these."""
        return self.vector_steps * self.run_envs

    @property
    def origins(self) -> list[Contributor]:
        """Its environments, each with the columns of its agents."""
        agents = self.env.agents
        first = int(self.envs[0]) // agents
        return [
            Contributor(f"env {first + n}", range(self.column + n * agents, self.column + (n + 1) * agents))
            for n in range(self.env.num_envs // agents)
        ]

    @property
    def has_like_origins(self) -> bool:
        return self.inspection.sees_like_envs

    def collect(self, steps: int) -> Batch:
        """A rollout [steps, num_envs], valid until the next call with as many steps."""
        return self.inspection(self.fill(steps))

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        """All that is collected here is one fragment."""
        return [(self.column, self.collect(steps))]

    def take(self) -> Tally:
        return self.inspection.take()

    def state_dict(self) -> State:
        return {**super().state_dict(), **self.inspection.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.inspection.load_state_dict(state)
        super().load_state_dict(state)
        if state["started"] and self.env.restarted:
            self.inspection.forget(np.array(self.env.restarted))
