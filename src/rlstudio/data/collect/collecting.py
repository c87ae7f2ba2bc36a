"""What sources ask of whatever collects: a Collector of this process, several of them, workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Contributor, Stateful, Tally


class Collecting(Stateful, Protocol):
    @property
    def run_envs(self) -> int:
        """Environments of the whole run; those that collect here may be a part of them."""
        ...

    @property
    def env_steps(self) -> int:
        """Steps of all environments of the run so far."""
        ...

    @property
    def origins(self) -> Sequence[Contributor]:
        """Who collects, in the order of their columns."""
        ...

    @property
    def has_like_origins(self) -> bool:
        """Whether they all act in the same world: no drawn parameters, no opponents of their own."""
        ...

    def collect(self, steps: int) -> Batch:
        """A rollout [steps, num_envs] of every environment, valid until the next call with as many steps."""
        ...

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        """Rollouts of parts of the environments as they come, each with the column that its first one has among those
        that collect here; together as many rows as `steps` of all."""
        ...

    def progress(self, fraction: float) -> None:
        """The share of the run that is done, for exploration."""
        ...

    def take(self) -> Tally:
        """What there is to report since the last time."""
        ...
