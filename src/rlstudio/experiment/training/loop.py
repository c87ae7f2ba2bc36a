"""The only loop there is: train step after train step, as a generator.

Progress bar, pruner, notebook, session and test are all `for tick in train(...)`; they stop training by leaving the
loop. There are no callbacks. A Tick ends every train step, a Report every epoch, and what is between two Reports
(partial means, open episodes) is part of the Position, so a run can be cut at any Tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import Trainer, WarmsUp
from rlstudio.experiment.training.epoch_clock import EpochClock
from rlstudio.experiment.training.position import Position, Report

WARM_UP_STEPS = 64
"""Environment steps of the warm-up between two Ticks."""


class Tick(NamedTuple):
    """One train step is done. `report` is there at the end of an epoch."""

    env_steps: int
    gradient_steps: int
    epoch: int
    report: Report | None


def train(trainer: Trainer, cfg: RunLength, position: Position) -> Iterator[Tick]:
    """One Tick per train step, with a Report at the end of each epoch. The caller logs, judges and saves."""
    source, clock = trainer.source, EpochClock()
    warms_up = source if isinstance(source, WarmsUp) else None
    while position.epoch < cfg.epochs:
        end = (position.epoch + 1) * cfg.steps_per_epoch
        warming = warms_up if warms_up is not None and warms_up.is_warming else None
        # A warm-up is one step of the schedules, in however many parts it is collected.
        trainer.progress(0.0 if warming else min(source.env_steps / cfg.planned_steps, 1.0))
        if not (warming and warming.warm_up(min(WARM_UP_STEPS, end - source.env_steps))):
            clock.start()
            position.add(trainer.train_step())
            clock.stop()
        report = None
        if source.env_steps >= end:
            position.epoch = min(source.env_steps // cfg.steps_per_epoch, cfg.epochs)
            report = replace(position.report(trainer), clock=clock.take())
        yield Tick(source.env_steps, trainer.gradient_steps, position.epoch, report)
