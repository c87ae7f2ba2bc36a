"""LocalRuntime: experience from environments of this process; gradients stay where they are."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, Explore, VecEnv
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.collector import Collector
from rlstudio.data.guard import RowGuard
from rlstudio.data.replay import ReplayBuffer


class LocalRuntime:
    reduce = None

    def __init__(
        self, env: VecEnv, guard: RowGuard | None = None, replay_capacity: int = 100_000, device: str = "cpu"
    ) -> None:
        self.env = env
        self.guard = guard
        self.replay_capacity = replay_capacity
        self.device = device

    @property
    def spaces(self) -> Spaces:
        return self.env.spaces

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    def collector(self, agent: Agent, rng: Rng, explore: Explore | None = None) -> Collector:
        return Collector(self.env, agent, rng, explore, self.guard)

    def replay(self) -> ReplayBuffer:
        return ReplayBuffer(self.spaces, self.replay_capacity, self.num_envs)
