"""LocalRuntime: experience from environments of this process; gradients stay where they are."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, Explore, VecEnv
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.guard import RowGuard
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.envs.config import EnvConfig


class LocalRuntime:
    """`world` is what the environments are copies of, for who plans in its equations; None where nobody said."""

    reduce = None

    def __init__(
        self,
        env: VecEnv,
        guard: RowGuard | None = None,
        replay_capacity: int = 100_000,
        device: str = "cpu",
        world: EnvConfig | None = None,
    ) -> None:
        self.env = env
        self.guard = guard
        self.replay_capacity = replay_capacity
        self.device = device
        self.world = world

    @property
    def spaces(self) -> Spaces:
        return self.env.spaces

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    @property
    def env_id(self) -> str:
        """The name of the world, empty where nobody said."""
        return "" if self.world is None else self.world.id

    def collector(self, agent: Agent, rng: Rng, explore: Explore | None = None) -> Collector:
        return Collector(self.env, agent, rng, explore, self.guard)

    def replay(self) -> ReplayBuffer:
        return ReplayBuffer(self.spaces, self.replay_capacity, self.num_envs)
