"""What every algorithm's Trainer shares: the shape of a learning step, and nothing of the mathematics."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from rlstudio.agents.agent import Agent
from rlstudio.algos.parts.config import RunLength
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, EnvFacts, Metrics, Stateful
from rlstudio.core.rng import Rng
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.schedules import learning_rate


class Trainer:
    """One algorithm: the class is an `Algorithm` of `core/contracts`, an object of it a `Trainer`. A subclass wires its
    parts in `__init__`, learns in `update` and names its state in `stateful`."""

    Config: ClassVar[type[RunLength]]
    off_policy: ClassVar[bool]
    discrete: ClassVar[bool | None] = None  # True: discrete actions only; False: continuous only; None: both
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "MultiDiscrete", "Box")  # for `rlctl algos`, read unimported
    observation_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "MultiDiscrete", "Box", "Dict")  # the same
    needs: ClassVar[str] = ""  # the same: what it cannot do without beside an environment, in a few words
    cfg: Any
    agent: Agent
    source: DataSource
    optimizer: Optimizer

    @classmethod
    def build_agent(cls, cfg: Any, env: EnvFacts, network: NetworkConfig, rng: Rng) -> Agent | None:
        """The agent alone, without environments, data or optimizers. Only for an agent that its Model and the spaces do
        not describe, such as one that plans; None leaves it to `__init__`."""
        return None

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """All there are; none where nothing is learned. The first is `optimizer`."""
        return (self.optimizer,)

    @property
    def gradient_steps(self) -> int:
        """Calls of the first optimizer."""
        return self.optimizers[0].calls if self.optimizers else 0

    @property
    def skipped(self) -> float:
        return sum(float(optimizer.skipped) for optimizer in self.optimizers)

    @property
    def lr(self) -> float | None:
        """That of the first optimizer."""
        return float(self.optimizers[0].lr) if self.optimizers else None

    def weights_are_finite(self) -> bool:
        return all(bool(torch.isfinite(optimizer.flat.data).all()) for optimizer in self.optimizers)

    def train_step(self) -> Metrics:
        """One learning step: fetch a Batch, learn from it."""
        return self.update(self.source.next())

    def update(self, batch: Batch) -> Metrics:
        raise NotImplementedError  # abstract

    def losses(self, batch: Batch) -> Metrics:
        raise NotImplementedError  # abstract

    @torch.no_grad()
    def eval_step(self) -> Metrics:
        """The losses on the newest Batch; nothing changes. For code of users: it is in the contract of a Trainer, and
        the loop never calls it."""
        if self.source.last is None:
            raise RuntimeError("eval_step needs a Batch: call train_step first")
        return self.losses(self.source.last)

    def progress(self, fraction: float) -> None:
        """Called by the loop before each step with the share of the run that is done."""
        self.source.progress(fraction)
        for optimizer in self.optimizers:
            optimizer.lr.fill_(learning_rate(self.cfg.lr, self.cfg.lr_schedule, fraction))

    def stateful(self) -> dict[str, Stateful]:
        raise NotImplementedError  # abstract
