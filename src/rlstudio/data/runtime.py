"""LocalRuntime: experience from environments of this process; gradients stay where they are."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, Explore, VecEnv
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.guard import RowGuard
from rlstudio.data.env_facts import EnvFacts
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.envs.config import EnvConfig


class LocalRuntime(EnvFacts):
    reduce = None

    def __init__(
        self,
        env: VecEnv,
        guard: RowGuard | None = None,
        replay_capacity: int = 100_000,
        device: str = "cpu",
        world: EnvConfig | None = None,
    ) -> None:
        super().__init__(env.spaces, world, device)
        self.env = env
        self.guard = guard
        self.replay_capacity = replay_capacity

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    def collector(self, agent: Agent, rng: Rng, explore: Explore | None = None) -> Collector:
        return Collector(self.env, agent, rng, explore, self.guard)

    def replay(self) -> ReplayBuffer:
        return ReplayBuffer(self.spaces, self.replay_capacity, self.num_envs)
