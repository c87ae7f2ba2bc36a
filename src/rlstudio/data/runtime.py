"""LocalRuntime: experience from environments of this process; and what it shares with the runtimes of workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from rlstudio.core.contracts import Agent, DataSource, Explore, Group, ReplayPlan, SeatsLearner, State, VecEnv
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.collecting import Collecting
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.env_facts import EnvDescription
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.params.episodes import Randomised
from rlstudio.ops.group import ALONE


class CollectingRuntime(EnvDescription, ABC):
    """What runtimes have in common, wherever they collect. In a `group` every rank has as many environments as this
    one; with `quarantine` rows of a source that lies do not count in a replay."""

    def __init__(
        self,
        spaces: Spaces,
        env_config: EnvConfig | None,
        device: str,
        *,
        replay_capacity: int,
        group: Group,
        quarantine: bool,
    ) -> None:
        super().__init__(spaces, env_config, device)
        self.replay_capacity = replay_capacity
        self.group = group
        self.quarantine = quarantine

    @property
    @abstractmethod
    def num_envs(self) -> int:
        """Environments whose rows this process learns from."""

    @property
    def run_envs(self) -> int:
        return self.num_envs * self.group.size

    @property
    def exact(self) -> str | None:
        """None, unless a kind of runtime knows why a resumed run would not get the same experience."""
        return None

    def topology(self) -> State:
        """Each kind of runtime adds what else the bits of a run depend on."""
        return {"num_envs": self.num_envs}

    def close(self) -> None:
        """Each kind of runtime closes what it has opened."""

    def _sampled(self, collector: Collecting, rng: Rng, plan: ReplayPlan) -> DataSource:
        """Samples of a replay that this collector fills."""
        from rlstudio.data.replay.source import new_replay  # a run that learns from fresh rollouts needs none

        held, sampling = (self.replay_capacity, self.num_envs), self.group.own(rng.fork("sample"))
        return new_replay(collector, self.spaces, *held, sampling, plan, self.device, quarantine=self.quarantine)


class LocalRuntime(CollectingRuntime):
    """`new_guard` makes the guard of each source."""

    def __init__(
        self,
        env: VecEnv,
        new_guard: Callable[[], RowGuard] = RowGuard,
        replay_capacity: int = 100_000,
        device: str = "cpu",
        env_config: EnvConfig | None = None,
        group: Group = ALONE,
        quarantine: bool = True,
    ) -> None:
        super().__init__(
            env.spaces, env_config, device, replay_capacity=replay_capacity, group=group, quarantine=quarantine
        )
        self.env = env
        self.new_guard = new_guard

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    @property
    def exact(self) -> str | None:
        return self.env.exact

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(self._collector(agent, rng, explore), steps, self.device)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        return self._sampled(self._collector(agent, rng, explore), rng, plan)

    def _collector(self, agent: Agent, rng: Rng, explore: Explore | None) -> Collector:
        if isinstance(self.env, SeatsLearner):
            self.env.bind(agent)
        return Collector(
            self.env,
            agent,
            self.group.own(rng.fork("collector")),
            explore,
            self.new_guard(),
            first_env=self.group.rank * self.num_envs,
            run_envs=self.run_envs,
        )

    def set_draw(self, draw: Draw) -> None:
        """What the parameters of each environment's next episodes are drawn from."""
        if not isinstance(self.env, Randomised):
            raise Incompatible(f"{self.env_id or 'this environment'}: its parameters cannot be drawn")
        self.env.set_draw(draw)

    def topology(self) -> State:
        return {**super().topology(), "vectorization": self.env.vectorization}

    def close(self) -> None:
        self.env.close()
