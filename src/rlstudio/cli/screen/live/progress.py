"""How far a run is, in numbers and as one plain line. Cheap enough to be asked after every train step."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text
from rlstudio.core.host.process import PULSE

if TYPE_CHECKING:
    from rlstudio.experiment.judging.evaluate import Evaluation
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.loop import Tick
    from rlstudio.experiment.training.position import Report

KEY_METRICS = ("policy_loss", "value_loss", "loss", "q", "entropy", "kl")
MAX_LOSSES = 4
WINDOW_SECONDS = 10.0
HISTORY = 512
"""Epoch returns kept for the sparkline; more than any terminal is wide."""


class Progress:
    def __init__(self, session: Session) -> None:
        train = session.cfg.train
        self.total_steps, self.epochs = train.planned_steps, train.epochs
        self.env_steps, self.epoch = session.status.env_steps, session.status.epoch
        self.first_step, self.started = self.env_steps, time.monotonic()
        self.metrics: dict[str, float] = {}
        self.returns: deque[float] = deque(maxlen=HISTORY)
        self.evaluation: Evaluation | None = None
        self.evaluated_epoch = 0
        self.doing = ""  # what else than training is under way
        self.updated_at = self.started
        self._envs = session.runtime.run_envs
        self._counted = self.env_steps, PULSE.vector_steps
        self._samples: deque[tuple[float, int]] = deque([(self.started, self.env_steps)])

    def at(self, tick: Tick, now: float) -> None:
        """Take in the position of a tick; called a few times a second."""
        self._counted = tick.env_steps, PULSE.vector_steps
        self.epoch, self.doing = tick.epoch, ""
        self._sample(tick.env_steps, now)

    def between(self, now: float, doing: str) -> None:
        """Between two ticks, in a long rollout or an evaluation; from another thread."""
        steps, counted = self._counted
        self.doing = doing
        self._sample(steps + (PULSE.vector_steps - counted) * self._envs, now)

    def _sample(self, env_steps: int, now: float) -> None:
        self.env_steps, self.updated_at = env_steps, now
        self._samples.append((now, env_steps))
        while len(self._samples) > 2 and now - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()

    def close_epoch(self, report: Report, evaluation: Evaluation | None, evaluated_epoch: int = 0) -> bool:
        """Take in an epoch, and the latest evaluation with the epoch after which it was made; True where it is new."""
        self.metrics = report.metrics
        self.returns.append(report.metrics["rollout/return_mean"])
        fresh = evaluation is not None and evaluation is not self.evaluation
        self.evaluation, self.evaluated_epoch = evaluation, evaluated_epoch
        return fresh

    @property
    def evaluation_age(self) -> str:
        """Says of an evaluation that it is not of the newest epoch."""
        if self.evaluated_epoch == self.epoch:
            return ""
        return f" (epoch {self.evaluated_epoch})" if self.evaluated_epoch else " (at the start)"

    @property
    def fraction(self) -> float:
        return min(self.env_steps / self.total_steps, 1.0)

    @property
    def rate(self) -> float:
        """Environment steps per second over the last `WINDOW_SECONDS`."""
        (start, before), (end, after) = self._samples[0], self._samples[-1]
        return max(after - before, 0) / (end - start) if end > start else math.nan

    @property
    def eta(self) -> float:
        return (self.total_steps - self.env_steps) / self.rate if self.rate > 0 else math.nan

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def last_return(self) -> float:
        """Mean return of the latest epoch in which an episode ended."""
        return next((value for value in reversed(self.returns) if math.isfinite(value)), math.nan)

    @property
    def losses(self) -> dict[str, float]:
        """The first `MAX_LOSSES` of `KEY_METRICS`; for an algorithm that reports none of them, of its own metrics."""
        known = {name: self.metrics[f"train/{name}"] for name in KEY_METRICS if f"train/{name}" in self.metrics}
        own = {key.removeprefix("train/"): value for key, value in self.metrics.items() if key.startswith("train/")}
        return dict(list((known or own).items())[:MAX_LOSSES])

    def line(self) -> str:
        rate = f"{self.rate:,.0f}" if math.isfinite(self.rate) else "-"
        parts = [
            f"epoch {self.epoch}/{self.epochs}",
            f"{self.env_steps:,} steps",
            f"{100 * self.fraction:.0f} %",
            f"eta {text.duration(self.eta)}",
            f"{rate} steps/s",
            f"train {text.number(self.last_return)}",
            *(f"{name} {text.number(value)}" for name, value in self.losses.items()),
        ]
        if self.evaluation is not None:
            parts.append(f"eval {text.number(self.evaluation.summary.mean)}{self.evaluation_age}")
        return "  ".join(parts)
