"""WorkersRuntime: experience that workers collect, each in a slice of the environments."""

from __future__ import annotations

from collections.abc import Callable

from rlstudio.core.contracts import Agent, DataSource, Explore, Group, ReplayPlan, State
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.env_facts import EnvDescription
from rlstudio.ops.group import ALONE
from rlstudio.scale.workers.collector import Placed, WorkersCollector
from rlstudio.scale.workers.crew import Crew
from rlstudio.scale.workers.job import RolloutJob


class WorkersRuntime(EnvDescription):
    """`new_guard` makes the guard of each source. In a `group` every rank has workers of its own."""

    def __init__(
        self,
        crew: Crew,
        job: RolloutJob,
        spaces: Spaces,
        new_guard: Callable[[], RowGuard] = RowGuard,
        replay_capacity: int = 100_000,
        device: str = "cpu",
        reason: str = "",
        group: Group = ALONE,
    ) -> None:
        """`reason`: why the workers are where they are."""
        super().__init__(spaces, job.env_config, device)
        self.crew = crew
        self.job = job
        self.reason = reason
        self.new_guard = new_guard
        self.replay_capacity = replay_capacity
        self.group = group

    @property
    def num_envs(self) -> int:
        return self.crew.slices[-1].stop

    @property
    def run_envs(self) -> int:
        return self.num_envs * self.group.size

    @property
    def exact(self) -> str | None:
        return self.crew.exact

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(self._collector(agent, rng), steps, self.device)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        from rlstudio.data.replay.source import new_replay  # a run that learns from fresh rollouts needs none

        collector, sampling = self._collector(agent, rng), self.group.own(rng.fork("sample"))
        return new_replay(collector, self.spaces, self.replay_capacity, self.num_envs, sampling, plan, self.device)

    def _collector(self, agent: Agent, rng: Rng) -> WorkersCollector:
        """Exploration is built by each worker for itself, from the same settings."""
        placed = Placed(self.group.rank * self.num_envs, self.run_envs)
        own = self.group.own(rng.fork("collector"))
        return WorkersCollector(self.crew, self.job, self.spaces, agent, own, self.new_guard(), placed)

    def topology(self) -> State:
        """The backend is not part of it: all give the same bits."""
        workers = len(self.crew.slices)
        return {"num_envs": self.num_envs, "vectorization": self.job.vectorization, "rollout.workers": workers}

    def whereabouts(self) -> State:
        """How many workers there are, where, and why there."""
        return {"workers": len(self.crew.slices), "backend": self.crew.backend.name, "reason": self.reason}

    def close(self) -> None:
        self.crew.close()
