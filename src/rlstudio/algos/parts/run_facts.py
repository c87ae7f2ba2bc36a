"""What others read off a Trainer: `rlctl algos` off its class, the run around it between learning steps."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, Metrics
from rlstudio.ops.optimizer import Optimizer


class RunFacts:
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "MultiDiscrete", "Box")  # for `rlctl algos`, read unimported
    observation_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "MultiDiscrete", "Box", "Dict")  # the same
    needs: ClassVar[str] = ""  # the same: what it cannot do without beside an environment, in a few words
    source: DataSource

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        raise NotImplementedError  # abstract

    def losses(self, batch: Batch) -> Metrics:
        """What `update` would report of this Batch, without learning from it."""
        raise NotImplementedError  # abstract

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

    def weight_rms(self) -> float:
        """Of the weights of all optimizers together."""
        flats = [optimizer.flat.data for optimizer in self.optimizers]
        squares = sum(float(flat.square().sum()) for flat in flats)
        return sqrt(squares / max(sum(flat.numel() for flat in flats), 1))

    def limit_gradients(self, norm: float) -> None:
        """The first optimizer skips gradients from this norm on. One that learns in a group is left alone: all of its
        ranks would have to hear of it at the same step."""
        for optimizer in self.optimizers[:1]:
            if optimizer.group.size == 1:
                optimizer.limit.fill_(norm)

    @torch.no_grad()
    def eval_step(self) -> Metrics:
        """The losses on the newest Batch; nothing changes. For code of users: it is in the contract of a Trainer, and
        the loop never calls it."""
        if self.source.last is None:
            raise RuntimeError("eval_step needs a Batch: call train_step first")
        return self.losses(self.source.last)
