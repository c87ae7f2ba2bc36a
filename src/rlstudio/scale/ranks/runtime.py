"""RankRuntime: experience from the environments of one rank."""

from __future__ import annotations

from collections.abc import Callable

from rlstudio.core.contracts import Group, State, VecEnv
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.scale.ranks.other_ranks import OtherRanks


class RankRuntime(LocalRuntime):
    """In rank 0 with the `others`, whose end is that of the runtime."""

    def __init__(
        self,
        env: VecEnv,
        group: Group,
        backend: str,
        new_guard: Callable[[], RowGuard] = RowGuard,
        replay_capacity: int = 100_000,
        device: str = "cpu",
        env_config: EnvConfig | None = None,
        others: OtherRanks | None = None,
    ) -> None:
        super().__init__(env, new_guard, replay_capacity, device, env_config, group)
        self.others = others
        self._backend = backend

    @property
    def exact(self) -> str | None:
        return self.env.exact or (None if self.others is None else self.others.exact)

    def topology(self) -> State:
        return {**super().topology(), "learners": f"{self.group.size} over {self._backend}"}

    def close(self) -> None:
        try:
            if self.others is not None:
                self.others.close()
        finally:
            super().close()
