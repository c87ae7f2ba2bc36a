"""TeamRuntime: what a trainer sees of environments in which its team acts beside others."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, DataSource, Explore, ReplayPlan, State
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.env_facts import EnvDescription
from rlstudio.data.teams.collector import TeamCollector
from rlstudio.data.teams.joint import Joint


class TeamRuntime(EnvDescription):
    """`num_envs` are the team's own columns; steps are counted in those of all agents, so that teams of any size agree
    on how long a rollout and a warm-up are."""

    def __init__(self, joint: Joint, name: str) -> None:
        whole = joint.runtime
        super().__init__(joint.teams[name].spaces, whole.env_config, whole.device)
        self.joint = joint
        self.name = name
        self.group = whole.group

    @property
    def num_envs(self) -> int:
        return len(self.joint.teams[self.name].among(self.joint.runtime.num_envs))

    @property
    def run_envs(self) -> int:
        return self.joint.runtime.run_envs

    @property
    def exact(self) -> str | None:
        return self.joint.runtime.exact

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(self._collector(agent, rng, explore, steps, fresh=True), steps, self.device)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        from rlstudio.data.replay.source import new_replay  # teams that learn from fresh rollouts need none

        steps = max(plan.every // self.run_envs, 1)
        collector, sampling = (
            self._collector(agent, rng, explore, steps, fresh=False),
            self.group.own(rng.fork("sample")),
        )
        capacity = self.joint.runtime.replay_capacity
        name = f"{self.name}/"
        return new_replay(collector, self.spaces, capacity, self.num_envs, sampling, plan, self.device, name=name)

    def _collector(self, agent: Agent, rng: Rng, explore: Explore | None, steps: int, *, fresh: bool) -> TeamCollector:
        if agent.remembers:
            raise Incompatible(
                f"teams.{self.name}.policy: an agent that remembers cannot act among several; choose one without memory"
            )
        columns, guard = self.joint.teams[self.name], self.joint.runtime.new_guard()
        own = self.group.own(rng.fork("collector"))
        collector = TeamCollector(self.joint, columns, agent, own, explore, guard)
        self.joint.enrol(self.name, collector, steps, fresh=fresh)
        return collector

    def topology(self) -> State:
        return self.joint.runtime.topology()

    def close(self) -> None:
        """The environments belong to all teams."""
