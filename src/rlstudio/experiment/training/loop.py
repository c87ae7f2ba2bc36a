"""The only loop there is: train step after train step, as a generator.

Progress bar, pruner, notebook, session and test are all `for tick in train(...)`; they stop training by leaving the
loop. There are no callbacks. A Tick ends every train step, a Report every epoch, and what is between two Reports
(partial means, open episodes) is part of the Position, so a run can be cut at any Tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import Trainer
from rlstudio.experiment.training.position import Position, Report

__all__ = ["Position", "Report", "Tick", "train"]


class Tick(NamedTuple):
    """One train step is done. `report` is there at the end of an epoch."""

    env_steps: int
    gradient_steps: int
    epoch: int
    report: Report | None


def train(trainer: Trainer, cfg: RunLength, position: Position) -> Iterator[Tick]:
    """One Tick per train step, with a Report at the end of each epoch. The caller logs, judges and saves."""
    source = trainer.source
    while position.epoch < cfg.epochs:
        trainer.progress(min(source.env_steps / cfg.planned_steps, 1.0))
        position.add(trainer.train_step())
        report = None
        if source.env_steps >= (position.epoch + 1) * cfg.steps_per_epoch:
            position.epoch = min(source.env_steps // cfg.steps_per_epoch, cfg.epochs)
            report = position.report(trainer)
        yield Tick(source.env_steps, trainer.gradient_steps, position.epoch, report)
