"""What every algorithm's Trainer shares: the shape of a learning step, and nothing of the mathematics."""

from __future__ import annotations

from typing import Any, ClassVar

from rlstudio.agents.agent import Agent
from rlstudio.algos.parts.config import RunLength
from rlstudio.algos.parts.run_facts import RunFacts
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, Metrics, Stateful
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.schedules import learning_rate


class Trainer(RunFacts):
    """One algorithm: the class is an `Algorithm` of `core/contracts`, an object of it a `Trainer`. A subclass wires its
    parts in `__init__`, learns in `update` and names its state in `stateful`."""

    Config: ClassVar[type[RunLength]]
    off_policy: ClassVar[bool]
    discrete: ClassVar[bool | None] = None  # True: discrete actions only; False: continuous only; None: both
    cfg: Any
    agent: Agent
    source: DataSource
    optimizer: Optimizer

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """All optimizers; none if nothing is learned. The first is `optimizer`."""
        return (self.optimizer,)

    def train_step(self) -> Metrics:
        """One learning step: fetch a Batch, learn from it."""
        return self.update(self.source.next())

    def update(self, batch: Batch) -> Metrics:
        raise NotImplementedError  # abstract

    def progress(self, fraction: float) -> None:
        """Called by the loop before each step with the share of the run that is done."""
        self.source.progress(fraction)
        for optimizer in self.optimizers:
            optimizer.lr.fill_(learning_rate(self.cfg.lr, self.cfg.lr_schedule, fraction))

    def stateful(self) -> dict[str, Stateful]:
        raise NotImplementedError  # abstract
