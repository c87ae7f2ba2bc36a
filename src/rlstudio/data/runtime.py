"""LocalRuntime: experience from environments of this process."""

from __future__ import annotations

from collections.abc import Callable

from rlstudio.core.contracts import Agent, DataSource, Explore, Group, ReplayPlan, SeatsLearner, State, VecEnv
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.env_facts import EnvDescription
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.params.episodes import Randomised
from rlstudio.ops.group import ALONE


class LocalRuntime(EnvDescription):
    """`new_guard` makes the guard of each source; with `quarantine` rows of an environment that lies do not
    count in a replay. In a `group` every rank has as many environments as this one."""

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
        super().__init__(env.spaces, env_config, device)
        self.env = env
        self.new_guard = new_guard
        self.replay_capacity = replay_capacity
        self.group = group
        self.quarantine = quarantine

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    @property
    def run_envs(self) -> int:
        return self.num_envs * self.group.size

    @property
    def exact(self) -> str | None:
        return self.env.exact

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(self._collector(agent, rng, explore), steps, self.device)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        from rlstudio.data.replay.source import new_replay  # a run that learns from fresh rollouts needs none

        collector, sampling = self._collector(agent, rng, explore), self.group.own(rng.fork("sample"))
        held = self.replay_capacity, self.num_envs
        return new_replay(collector, self.spaces, *held, sampling, plan, self.device, quarantine=self.quarantine)

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
        return {"num_envs": self.num_envs, "vectorization": self.env.vectorization}

    def close(self) -> None:
        self.env.close()
