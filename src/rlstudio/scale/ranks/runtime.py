"""Experience of one rank: from environments in its process, or from rollout workers of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstudio.core.contracts import Group, State, VecEnv
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.scale.ranks.other_ranks import OtherRanks
from rlstudio.scale.workers.crew import Crew
from rlstudio.scale.workers.job import RolloutJob
from rlstudio.scale.workers.runtime import WorkersRuntime


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
        quarantine: bool = True,
    ) -> None:
        super().__init__(env, new_guard, replay_capacity, device, env_config, group, quarantine)
        self.others = others
        self._backend = backend

    @property
    def exact(self) -> str | None:
        return super().exact or _exact(self.others)

    def topology(self) -> State:
        return {**super().topology(), **_learners(self.group, self._backend)}

    def close(self) -> None:
        try:
            _close(self.others)
        finally:
            super().close()


class RankWorkersRuntime(WorkersRuntime):
    """Each rank has as many workers, with environments that are numbered through all ranks."""

    def __init__(
        self,
        crew: Crew,
        job: RolloutJob,
        spaces: Spaces,
        group: Group,
        backend: str,
        others: OtherRanks | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(crew, job, spaces, group=group, **settings)
        self.others = others
        self._backend = backend

    @property
    def exact(self) -> str | None:
        return super().exact or _exact(self.others)

    def topology(self) -> State:
        return {**super().topology(), **_learners(self.group, self._backend)}

    def close(self) -> None:
        try:
            _close(self.others)
        finally:
            super().close()


def _exact(others: OtherRanks | None) -> str | None:
    return None if others is None else others.exact


def _learners(group: Group, backend: str) -> State:
    return {"learners": f"{group.size} over {backend}"}


def _close(others: OtherRanks | None) -> None:
    if others is not None:
        others.close()
