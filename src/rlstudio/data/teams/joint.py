"""Joint: one vector of environments in which several teams act, a step of all of them at a time.

Each team has its own agent, exploration and guard, and gets the rows of its own agents. Whoever asks for rows that are
not there yet makes all teams act on; the others find theirs when they ask.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array, State
from rlstudio.core.errors import ConfigError
from rlstudio.core.host.process import PULSE
from rlstudio.data.runtime import LocalRuntime
from rlstudio.data.teams.collector import TeamCollector
from rlstudio.data.teams.columns import TeamColumns


class Joint:
    """`teams` in the order in which their names are given; together they are all agents of the environments."""

    def __init__(self, runtime: LocalRuntime, teams: dict[str, TeamColumns]) -> None:
        self.runtime = runtime
        self.teams = teams
        self.members: dict[str, TeamCollector] = {}
        self.vector_steps = 0
        self.observations: Array | None = None
        self._rollouts: dict[str, int] = {}  # vector steps of the fresh rollouts that a team learns from,
        self._chunks: dict[str, int] = {}  # or that it adds to its replay at a time

    @property
    def env_steps(self) -> int:
        """Of all agents of all environments of the run."""
        return self.vector_steps * self.runtime.run_envs

    def enrol(self, name: str, member: TeamCollector, steps: int, *, fresh: bool) -> None:
        """`steps`: what it asks for at a time; `fresh`: it learns from that alone, by the weights that acted."""
        self.members[name] = member
        (self._rollouts if fresh else self._chunks)[name] = steps

    @property
    def by_freshness(self) -> list[str]:
        """The teams, those that learn from fresh rollouts first: what the others collect beyond a rollout is then by
        the weights that the next one begins with."""
        return [*self._rollouts, *self._chunks]

    def round_steps(self) -> int:
        """Vector steps after which every team has learned from what it did: the rollout of all teams that learn from
        fresh ones. ConfigError where they differ."""
        for name in self.teams:
            if name not in self.members:
                raise ConfigError(f"teams.{name}.policy.algo: it learns from no environments; choose another algorithm")
        if not self._rollouts:
            return max(self._chunks.values())
        (first, steps), *others = self._rollouts.items()
        for name, other in others:
            if other != steps:
                raise ConfigError(
                    f"teams.{name}.train.rollout_steps: {other} steps, and {first} has {steps}: teams that learn from"
                    " fresh rollouts learn at the same moments; give them the same number"
                )
        for name, chunk in self._chunks.items():
            if chunk > steps:
                raise ConfigError(
                    f"teams.{name}.train.train_every: {chunk} steps of each environment are more than the {steps} of a"
                    f" rollout of {first}; lower it to {steps * self.runtime.run_envs} or less"
                )
        return steps

    def advance(self, steps: int) -> None:
        """So many steps of all environments, all teams acting by the weights that they have now."""
        env, members = self.runtime.env, tuple(self.members.values())
        observations = env.reset() if self.observations is None else self.observations
        for member in members:
            member.begin(steps)
        space = env.spaces.action
        for t in range(steps):
            actions = np.zeros((env.num_envs, *space.shape), space.dtype)  # type: ignore[union-attr]
            for member in members:
                member.act(t, self.vector_steps + t, observations, actions)
            step = env.step(actions)
            PULSE.vector_steps += 1
            for member in members:
                member.write_outcome(t, step)
            observations = step.observations
        self.observations = observations
        self.vector_steps += steps
        for member in members:
            member.finish()

    def state_dict(self) -> State:
        started = self.observations is not None
        position = self.runtime.env.position() if started else {}
        return {"vector_steps": self.vector_steps, "started": started, "env": position}

    def load_state_dict(self, state: State) -> None:
        """After the states of the members: they forget what the environments cannot go on with."""
        self.vector_steps = int(state["vector_steps"])
        if state["started"]:
            env = self.runtime.env
            self.observations = env.seek(state["env"])
            if env.restarted:
                for member in self.members.values():
                    member.forget_columns(np.array(env.restarted))
