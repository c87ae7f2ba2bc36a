"""Experience of one rank: from environments in its process, or from rollout workers of its own."""

from __future__ import annotations

from typing import Any

from rlstudio.core.contracts import Group, State
from rlstudio.data.runtime import CollectingRuntime, LocalRuntime
from rlstudio.scale.ranks.other_ranks import OtherRanks
from rlstudio.scale.workers.runtime import WorkersRuntime


class LearnsInRanks(CollectingRuntime):
    """Stands before the runtime of a process that learns alone, and adds what several ranks change in it. In rank 0 it
    has the `others`, which end with it."""

    def __init__(
        self, *parts: Any, group: Group, backend: str, others: OtherRanks | None = None, **settings: Any
    ) -> None:
        super().__init__(*parts, group=group, **settings)
        self.others = others
        self._backend = backend

    @property
    def exact(self) -> str | None:
        return super().exact or (None if self.others is None else self.others.exact)

    def topology(self) -> State:
        return {**super().topology(), "learners": f"{self.group.size} over {self._backend}"}

    def close(self) -> None:
        try:
            if self.others is not None:
                self.others.close()
        finally:
            super().close()


class RankRuntime(LearnsInRanks, LocalRuntime):
    """Environments in the process of the rank."""


class RankWorkersRuntime(LearnsInRanks, WorkersRuntime):
    """Each rank has as many workers, with environments that are numbered through all ranks."""
