"""The only loop there is: train step after train step, as a generator.

Progress bar, pruner, notebook, session and test are all `for tick in train(...)`; they stop training by leaving the
loop. There are no callbacks. A Tick ends every train step, a Report every epoch, and what is between two Reports
(partial means, open episodes) is part of the Position, so a run can be cut at any Tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np
import torch

from rlstudio.algos.config import TrainConfig
from rlstudio.algos.trainer import Trainer
from rlstudio.core.contracts import Metrics, State


@dataclass(frozen=True)
class Report:
    """What one epoch yields: means of its steps' metrics, and of the episodes that ended in it."""

    epoch: int
    env_steps: int
    gradient_steps: int
    metrics: dict[str, float]


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
        self.rows: list[Metrics] = []
        self.skipped = 0.0
        self.gradient_steps = 0
        self.bad_rows = 0
        self.env_steps = 0

    def report(self, trainer: Trainer) -> Report:
        """Close the epoch: the one place where numbers leave the device."""
        collector, optimizer = trainer.source.collector, trainer.optimizer
        returns, lengths = collector.episodes.take()
        metrics = {f"train/{name}": value for name, value in self._means().items()}
        steps = optimizer.calls - self.gradient_steps
        skipped, bad_rows = float(optimizer.skipped), sum(collector.guard.counts.values())
        metrics |= {
            "rollout/return_mean": float(np.mean(returns)) if returns else nan,
            "rollout/length_mean": float(np.mean(lengths)) if lengths else nan,
            "rollout/episodes": float(len(returns)),
            "train/lr": float(optimizer.lr),
            "guard/skipped_share": (skipped - self.skipped) / max(steps, 1),
            "guard/bad_row_share": (bad_rows - self.bad_rows) / max(collector.env_steps - self.env_steps, 1),
        }
        self.skipped, self.bad_rows = skipped, bad_rows
        self.gradient_steps, self.env_steps = optimizer.calls, collector.env_steps
        return Report(self.epoch, collector.env_steps, optimizer.calls, metrics)

    def _means(self) -> dict[str, float]:
        if not self.rows:
            return {}
        names = sorted(self.rows[0])  # a restored epoch must tell its metrics in the same order
        table = torch.stack([torch.stack([row[name] for name in names]) for row in self.rows])
        self.rows = []
        return dict(zip(names, table.double().mean(0).tolist(), strict=True))

    def state_dict(self) -> State:
        names = list(self.rows[0]) if self.rows else []
        rows = {name: torch.stack([row[name] for row in self.rows]) for name in names}
        return {
            "epoch": self.epoch,
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "gradient_steps": self.gradient_steps,
            "env_steps": self.env_steps,
            "rows": rows,
        }

    def load_state_dict(self, state: State) -> None:
        self.epoch = int(state["epoch"])
        self.skipped = float(state["skipped"])
        self.bad_rows = int(state["bad_rows"])
        self.gradient_steps = int(state["gradient_steps"])
        self.env_steps = int(state["env_steps"])
        columns = {name: torch.as_tensor(values).unbind() for name, values in state["rows"].items()}
        self.rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def train(trainer: Trainer, cfg: TrainConfig, position: Position) -> Iterator[Tick]:
    """One Tick per train step, with a Report at the end of each epoch. The caller logs, judges and saves."""
    collector, optimizer = trainer.source.collector, trainer.optimizer
    while position.epoch < cfg.epochs:
        trainer.progress(min(collector.env_steps / cfg.total_steps, 1.0))
        position.rows.append(trainer.train_step())
        report = None
        if collector.env_steps >= (position.epoch + 1) * cfg.steps_per_epoch:
            position.epoch = min(collector.env_steps // cfg.steps_per_epoch, cfg.epochs)
            report = position.report(trainer)
        yield Tick(collector.env_steps, optimizer.calls, position.epoch, report)
