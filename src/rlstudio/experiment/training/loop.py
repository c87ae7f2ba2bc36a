"""The only loop there is: train step after train step, as a generator.

Progress bar, pruner, notebook, session and test are all `for tick in train(...)`; they stop training by leaving the
loop. There are no callbacks. A Tick ends every train step, a Report every epoch, and what is between two Reports
(partial means, open episodes) is part of the Position, so a run can be cut at any Tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import Metrics, State, Trainer, WarmsUp
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.ops.statistics import mean_given

WARM_UP_STEPS = 64
"""Environment steps of the warm-up between two Ticks."""


@dataclass(frozen=True)
class Report:
    """What one epoch yields: means of its steps' metrics, and of the episodes that ended in it."""

    epoch: int
    env_steps: int
    gradient_steps: int
    metrics: dict[str, float]
    bad: dict[str, int] = field(default_factory=dict)  # rows since the start that learning did not see, by reason
    restarts: list[str] | None = None  # of environment workers, why; None: there are none
    outside: str | None = None  # the first observation far outside its space, once
    warming: bool = False  # nothing was learned in it: the source still collects what the first update waits for


class Tick(NamedTuple):
    """One train step is done. `report` is there at the end of an epoch."""

    env_steps: int
    gradient_steps: int
    epoch: int
    report: Report | None


class Position:
    """Where the loop stands: finished epochs, and the metrics of the one under way."""

    def __init__(self) -> None:
        self.epoch = 0
        self.names: list[str] = []  # the metrics of this epoch,
        self.sums: Tensor | None = None  # the sum of each
        self.ticks = 0  # over this many steps
        self.skipped = 0.0
        self.gradient_steps = 0
        self.bad_rows = 0
        self.env_steps = 0
        OWN_METRICS.start({})

    def report(self, trainer: Trainer) -> Report:
        """Close the epoch: the one place where numbers leave the device."""
        env_steps, tally, warming = trainer.source.env_steps, trainer.source.take(), self.sums is None
        metrics = {f"train/{name}": value for name, value in self._means().items()}
        steps = trainer.gradient_steps - self.gradient_steps
        skipped, lr = trainer.skipped, trainer.lr
        metrics |= {
            "rollout/return_mean": float(np.mean(tally.returns)) if tally.returns else nan,
            "rollout/length_mean": float(np.mean(tally.lengths)) if tally.lengths else nan,
            "rollout/episodes": float(len(tally.returns)),
            **{f"rollout/{key}": mean_given(values) for key, values in tally.infos.items()},
            **({} if lr is None else {"train/lr": lr}),
            "guard/skipped_share": (skipped - self.skipped) / max(steps, 1),
            "guard/bad_row_share": (tally.bad_rows - self.bad_rows) / max(env_steps - self.env_steps, 1),
            **OWN_METRICS.take(),
        }
        self.skipped, self.bad_rows = skipped, tally.bad_rows
        self.gradient_steps, self.env_steps = trainer.gradient_steps, env_steps
        counts, notices = (self.epoch, env_steps, trainer.gradient_steps), (tally.bad, tally.restarts, tally.outside)
        return Report(*counts, metrics, *notices, warming)

    def add(self, metrics: Metrics) -> None:
        """One step's metrics, summed on the device: nothing leaves it before the epoch ends."""
        if self.sums is None:
            self.names = sorted(metrics)  # the order in which they are reported, also after a restore
        row = torch.stack([metrics[name] for name in self.names]).double()
        self.sums = row if self.sums is None else self.sums.to(row.device) + row
        self.ticks += 1

    def _means(self) -> dict[str, float]:
        if self.sums is None:
            return {}
        means = (self.sums / self.ticks).tolist()
        self.sums, self.ticks = None, 0
        return dict(zip(self.names, means, strict=True))

    def state_dict(self) -> State:
        return {
            "epoch": self.epoch,
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "gradient_steps": self.gradient_steps,
            "env_steps": self.env_steps,
            "ticks": self.ticks,
            "names": self.names if self.ticks else [],
            "sums": [] if self.sums is None else self.sums.tolist(),
            **({"own": own} if (own := OWN_METRICS.open_sums()) else {}),
        }

    def load_state_dict(self, state: State) -> None:
        self.epoch = int(state["epoch"])
        self.skipped = float(state["skipped"])
        self.bad_rows = int(state["bad_rows"])
        self.gradient_steps = int(state["gradient_steps"])
        self.env_steps = int(state["env_steps"])
        self.ticks = int(state["ticks"])
        self.names = list(state["names"])
        self.sums = torch.tensor(state["sums"], dtype=torch.float64) if state["sums"] else None
        OWN_METRICS.start(state.get("own", {}))


def report_again(trainer: Trainer, position: Position) -> Report:
    """What is known of the last epoch after its Report was taken: where it ended."""
    source = trainer.source
    warming = isinstance(source, WarmsUp) and source.is_warming
    return Report(position.epoch, source.env_steps, trainer.gradient_steps, {}, warming=warming)


def train(trainer: Trainer, cfg: RunLength, position: Position) -> Iterator[Tick]:
    """One Tick per train step, with a Report at the end of each epoch. The caller logs, judges and saves."""
    source = trainer.source
    warms_up = source if isinstance(source, WarmsUp) else None
    while position.epoch < cfg.epochs:
        end = (position.epoch + 1) * cfg.steps_per_epoch
        warming = warms_up if warms_up is not None and warms_up.is_warming else None
        # A warm-up is one step of the schedules, in however many parts it is collected.
        trainer.progress(0.0 if warming else min(source.env_steps / cfg.planned_steps, 1.0))
        if not (warming and warming.warm_up(min(WARM_UP_STEPS, end - source.env_steps))):
            position.add(trainer.train_step())
        report = None
        if source.env_steps >= end:
            position.epoch = min(source.env_steps // cfg.steps_per_epoch, cfg.epochs)
            report = position.report(trainer)
        yield Tick(source.env_steps, trainer.gradient_steps, position.epoch, report)
