"""WorkersRuntime: experience that workers collect, each in a slice of the environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlstudio.core.contracts import Agent, DataSource, Explore, FragmentTag, Group, ReplayPlan, State
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.runtime import CollectingRuntime
from rlstudio.ops.group import ALONE
from rlstudio.scale.workers.ahead.collector import AheadCollector
from rlstudio.scale.workers.ahead.crew import AheadCrew
from rlstudio.scale.workers.ahead.order import AsLogged, AsTheyCome
from rlstudio.scale.workers.backends import IN_STEP, Lookahead
from rlstudio.scale.workers.collector import Placed, WorkersCollector
from rlstudio.scale.workers.crew import Crew
from rlstudio.scale.workers.job import RolloutJob

UNDER_WAY = "rollout.mode is async: what workers had under way is collected anew after a resume, with newer weights"
"""Why an asynchronous run is resumed with the same statistics and not with the same bits."""


class WorkersRuntime(CollectingRuntime):
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
        ahead: Lookahead = IN_STEP,
        rounds: Mapping[int, Sequence[FragmentTag]] | None = None,
        quarantine: bool = True,
    ) -> None:
        """`reason`: why the workers are where they are. `ahead`: of asynchronous workers, which are an AheadCrew.
        `rounds`: what an earlier run learned from in which round; this one learns from the same."""
        super().__init__(
            spaces, job.env_config, device, replay_capacity=replay_capacity, group=group, quarantine=quarantine
        )
        self.crew = crew
        self.job = job
        self.reason = reason
        self.new_guard = new_guard
        self.ahead = ahead
        self.rounds = rounds

    @property
    def num_envs(self) -> int:
        return self.crew.slices[-1].stop

    @property
    def exact(self) -> str | None:
        return self.crew.exact or (UNDER_WAY if self.ahead.fragments else None)

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(self._collector(agent, rng, each=True), steps, self.device)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        return self._sampled(self._collector(agent, rng, each=False), rng, plan)

    def _collector(self, agent: Agent, rng: Rng, *, each: bool) -> WorkersCollector:
        """Exploration is built by each worker for itself, from the same settings."""
        placed = Placed(self.group.rank * self.num_envs, self.run_envs)
        own, crew = self.group.own(rng.fork("collector")), self.crew
        if not isinstance(crew, AheadCrew):
            return WorkersCollector(crew, self.job, self.spaces, agent, own, self.new_guard(), placed)
        order = AsTheyCome(crew, self.ahead) if self.rounds is None else AsLogged(crew, self.rounds)
        parts = crew, self.job, self.spaces, agent, own, self.new_guard, placed
        return AheadCollector(*parts, order, self.ahead, each=each)

    def topology(self) -> State:
        """The backend is not part of it: all give the same bits."""
        workers = len(self.crew.slices)
        topology = {**super().topology(), "vectorization": self.job.vectorization, "rollout.workers": workers}
        return {**topology, "rollout.mode": "async"} if self.ahead.fragments else topology

    def whereabouts(self) -> State:
        """How many workers there are, where, and why there."""
        facts = {
            "workers": len(self.crew.slices) * self.group.size,
            "backend": self.crew.backend.name,
            "reason": self.reason,
        }
        return {**facts, "mode": "async"} if self.ahead.fragments else facts

    def close(self) -> None:
        self.crew.close()
