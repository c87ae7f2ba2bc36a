"""Plateau: a metric that no longer gets better ends the run before its last epoch, as completed.

    better    value > best + min_delta (or value < best - min_delta, where less is better)
    over      `epochs` epochs since the last one that was better

A metric of evaluations is judged when one comes, so the run ends at the first evaluation after so many epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError, suggest
from rlstudio.core.own_metrics import GROUP as OWN
from rlstudio.experiment.config.judging import PlateauConfig

EVALUATION = "eval/"


class Plateau:
    """Follows one metric; the best value and its epoch are its state."""

    def __init__(self, rule: PlateauConfig) -> None:
        self.rule = rule
        self.best: float | None = None
        self.best_epoch = 0
        self.is_over = False

    def add(self, epoch: int, metrics: Mapping[str, float]) -> None:
        value = metrics.get(self.rule.metric)
        if value is None:
            if self.best is None and self._should_be_there(epoch, metrics):
                hint = suggest(self.rule.metric, metrics) or f"; there are: {', '.join(sorted(metrics))}"
                raise ConfigError(f"gates.plateau: no metric {self.rule.metric!r}{hint}")
            return
        if not isfinite(value):  # no episode ended in that epoch
            return
        sign = 1.0 if self.rule.direction == "maximize" else -1.0
        if self.best is None or sign * (value - self.best) > self.rule.min_delta:
            self.best, self.best_epoch = value, epoch
        self.is_over = epoch - self.best_epoch >= self.rule.epochs

    def _should_be_there(self, epoch: int, metrics: Mapping[str, float]) -> bool:
        """An epoch has all its metrics and an evaluation all of its own, but a program logs its own when it likes."""
        if self.rule.metric.startswith(OWN):
            return epoch > self.rule.epochs
        return self.rule.metric.startswith(EVALUATION) == any(name.startswith(EVALUATION) for name in metrics)

    def message(self, epoch: int, epochs: int) -> str:
        rule = self.rule
        by = f" by more than {rule.min_delta:g}" if rule.min_delta else ""
        return (
            f"{rule.metric} was not better{by} than {self.best:.6g} of epoch {self.best_epoch} for"
            f" gates.plateau.epochs={rule.epochs}; after {epoch} of {epochs} epochs"
        )

    def state_dict(self) -> State:
        return {"best": self.best, "epoch": self.best_epoch, "is_over": self.is_over}

    def load_state_dict(self, state: State) -> None:
        self.best, self.best_epoch = state["best"], int(state["epoch"])
        self.is_over = bool(state["is_over"])
