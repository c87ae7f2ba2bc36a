"""LocalRuntime: experience from environments of this process; gradients stay where they are."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, Explore, VecEnv
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.guard import RowGuard
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.envs.config import EnvConfig


class EnvFacts:
    """What is known of the environments without having one: enough to act in them, not to learn from them.

    `world` is what they are copies of, for who plans in its equations; None where nobody said.
    """

    def __init__(self, spaces: Spaces, world: EnvConfig | None = None, device: str = "cpu") -> None:
        self.spaces = spaces
        self.world = world
        self.device = device

    @property
    def env_id(self) -> str:
        """The name of the world, empty where nobody said."""
        return "" if self.world is None else self.world.id


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
