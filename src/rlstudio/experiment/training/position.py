"""Where the loop stands between two train steps, and what it reports when an epoch is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.contracts import FragmentRound, Metrics, State, Tally, Trainer, WarmsUp
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.experiment.curriculum.changes import NO_CHANGE, CurriculumOutcome
from rlstudio.experiment.training.run_curriculum import RunCurriculum
from rlstudio.ops.statistics import mean_given

FOLD = 64
"""Steps whose metrics are summed up at once: beside an update of a small network each operation counts."""


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
    bad_row: str | None = None  # the first of this epoch: where it is, and what is wrong with it
    warming: bool = False  # nothing was learned in it: the source still collects what the first update waits for
    curriculum: CurriculumOutcome = NO_CHANGE  # what changed there, or why it ends the run
    clock: dict[str, float] = field(default_factory=dict)  # metrics that depend on the machine and its speed
    fragments: list[FragmentRound] | None = None  # that this epoch learned from, of asynchronous workers
    quarantined: list[str] | None = None  # sources of the replay whose rows count no more, and why


class Position:
    """Where the loop stands: finished epochs, the metrics of the one under way, and the curriculum if there is one."""

    def __init__(self, curriculum: RunCurriculum | None = None) -> None:
        self.curriculum = curriculum
        self.epoch = 0
        self.names: list[str] = []  # the metrics of this epoch,
        self.sums: Tensor | None = None  # the sum of each
        self.ticks = 0  # over this many steps,
        self._pending: list[Metrics] = []  # of which the last ones are not in the sums yet
        self.latest: Metrics | None = None  # those of the last step, on its device; not part of the state
        self.skipped = 0.0
        self.gradient_steps = 0
        self.bad_rows = 0
        self.env_steps = 0
        OWN_METRICS.start({})

    def report(self, trainer: Trainer) -> Report:
        """Close the epoch: the one place where numbers leave the device."""
        env_steps, tally, warming = trainer.source.env_steps, trainer.source.take(), not self.ticks
        metrics = {f"train/{name}": value for name, value in self._means().items()}
        steps = trainer.gradient_steps - self.gradient_steps
        skipped, lr = trainer.skipped, trainer.lr
        returns = [value for value in tally.returns if not isnan(value)]
        unusable = len(tally.returns) - len(returns)
        metrics |= {
            "rollout/return_mean": float(np.mean(returns)) if returns else nan,
            "rollout/length_mean": float(np.mean(tally.lengths)) if tally.lengths else nan,
            "rollout/episodes": float(len(tally.returns)),
            **({"rollout/episodes_without_return": float(unusable)} if unusable else {}),
            **{f"rollout/{key}": mean_given(values) for key, values in tally.infos.items()},
            **{f"params/{name}": mean_given(values) for name, values in _drawn(tally).items()},
            **({} if lr is None else {"train/lr": lr}),
            "guard/skipped_share": (skipped - self.skipped) / max(steps, 1),
            "guard/bad_row_share": (tally.bad_rows - self.bad_rows) / max(env_steps - self.env_steps, 1),
            **(tally.metrics or {}),
            **OWN_METRICS.take(),
        }
        outcome = NO_CHANGE
        if self.curriculum is not None:
            outcome, measured = self.curriculum.close_epoch(tally, self.epoch, env_steps)
            metrics |= measured
        self.skipped, self.bad_rows = skipped, tally.bad_rows
        self.gradient_steps, self.env_steps = trainer.gradient_steps, env_steps
        noticed = tally.bad, tally.restarts, tally.outside, tally.bad_row
        facts = metrics, *noticed, warming, outcome
        return Report(
            self.epoch,
            env_steps,
            trainer.gradient_steps,
            *facts,
            fragments=tally.fragments,
            quarantined=tally.quarantined,
        )

    def add(self, metrics: Metrics) -> None:
        """One step's metrics: nothing leaves the device before the epoch ends. Of teams that all warm up there are none
        yet; those of one that begins in the midst of an epoch count from the next on."""
        self.latest = metrics or None
        if not metrics:
            return
        if not self.ticks:
            self.names = sorted(metrics)  # the order in which they are reported, also after a restore
        self._pending.append(metrics)
        self.ticks += 1
        if len(self._pending) >= FOLD:
            self._fold()

    def _fold(self) -> None:
        """Add up in the order of the steps: the sum is the same to the last bit wherever it is folded."""
        if not self._pending:
            return
        rows = table_of(self._pending, self.names)
        self._pending = []
        self.sums = rows[0].clone() if self.sums is None else self.sums.to(rows.device) + rows[0]
        sums = self.sums.numpy() if rows.is_cpu else self.sums  # an operation of NumPy costs less
        for row in rows[1:].numpy() if rows.is_cpu else rows[1:]:
            sums += row

    def _means(self) -> dict[str, float]:
        self._fold()
        if self.sums is None:
            return {}
        means = (self.sums / self.ticks).tolist()
        self.sums, self.ticks = None, 0
        return dict(zip(self.names, means, strict=True))

    def state_dict(self) -> State:
        self._fold()
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
            **({} if self.curriculum is None else {"curriculum": self.curriculum.state_dict()}),
        }

    def load_state_dict(self, state: State) -> None:
        self.epoch = int(state["epoch"])
        self.skipped = state["skipped"]  # as it is: a whole number where nothing can be skipped, and hashed as one
        self.bad_rows = int(state["bad_rows"])
        self.gradient_steps = int(state["gradient_steps"])
        self.env_steps = int(state["env_steps"])
        self.ticks = int(state["ticks"])
        self.names = list(state["names"])
        self.sums = torch.tensor(state["sums"], dtype=torch.float64) if state["sums"] else None
        self._pending = []
        OWN_METRICS.start(state.get("own", {}))
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state.get("curriculum", {}), self.env_steps)


def table_of(steps: Sequence[Metrics], names: Sequence[str]) -> Tensor:
    """Of each step a row with these metrics, on their device."""
    values = torch.stack([metrics[name] for metrics in steps for name in names])
    return values.double().view(len(steps), len(names))


def _drawn(tally: Tally) -> dict[str, list[float]]:
    """What was drawn for each parameter of the episodes."""
    return {} if tally.draws is None else tally.draws.values


def report_again(trainer: Trainer, position: Position) -> Report:
    """What is known of the last epoch after its Report was taken: where it ended."""
    source = trainer.source
    warming = isinstance(source, WarmsUp) and source.is_warming
    return Report(position.epoch, source.env_steps, trainer.gradient_steps, {}, warming=warming)


class Pace:
    """Environment steps a second, from one look to the next."""

    def __init__(self, env_steps: int) -> None:
        self._steps, self._started = env_steps, time.perf_counter()

    def since(self, env_steps: int) -> float:
        now = time.perf_counter()
        rate = (env_steps - self._steps) / (now - self._started)
        self._steps, self._started = env_steps, now
        return rate
