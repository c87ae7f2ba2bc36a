"""What a sweep found: its trials as plain rows, the best of them, and which settings mattered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.records import RunRow
from rlstudio.control.sweep.config import Dimension, SweepConfig
from rlstudio.control.sweep.rungs import ladder
from rlstudio.control.sweep.space import Space, number_of
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, Trial, TrialState
from rlstudio.core.config import parse, to_yaml

FEWEST = 4
"""Trials below which nothing is said about which setting mattered."""


@dataclass(frozen=True)
class SweepSummary:
    """A sweep as the store has it, without anything that needs torch."""

    sweep: Sweep
    cfg: SweepConfig
    trials: list[Trial]
    runs: list[RunRow]

    @property
    def sign(self) -> int:
        return -1 if self.cfg.direction == "minimize" else 1

    @property
    def epochs(self) -> int:
        experiment: Any = self.cfg.experiment
        return int(experiment["train"]["epochs"])

    @property
    def planned(self) -> int:
        """How many trials there will be; a pbt sweep adds copies to its members."""
        if self.cfg.sampler.kind != "grid":
            return self.cfg.trials or 0
        experiment: Any = self.cfg.experiment
        size = len(Space(self.cfg.space, experiment).grid())
        return size if self.cfg.trials is None else min(size, self.cfg.trials)

    @property
    def rungs(self) -> tuple[int, ...]:
        """Epochs at which trials are compared, all before the last."""
        experiment: Any = self.cfg.experiment
        return ladder(self.cfg, self.epochs, int(experiment["eval"]["every_epochs"]))

    @property
    def best(self) -> Trial | None:
        """The best of those that went to the end."""
        return best_of(self.trials)

    def value(self, trial: Trial) -> float | None:
        """The mean over seeds, where it stands."""
        if not trial.results:
            return None
        return float(np.mean(list(trial.results[max(trial.results)].values())))

    def bound(self, trial: Trial) -> float | None:
        """What it is worth: the bound of that mean, in the metric's own direction."""
        return None if trial.score is None else self.sign * trial.score

    def env_steps(self) -> int:
        return sum(run.env_steps for run in self.runs)

    def document(self) -> dict[str, object]:
        best, driver = self.best, self.sweep.process
        return {
            "name": self.sweep.name,
            "state": self.sweep.current,
            "driver": {"host": driver.host, "pid": driver.pid} if self.sweep.is_driven else None,
            "deterministic": self.sweep.deterministic,
            "metric": self.cfg.metric,
            "direction": self.cfg.direction,
            "seeds": list(self.cfg.seeds),
            "sampler": self.cfg.sampler.kind,
            "pruner": self.cfg.pruner.kind,
            "planned": self.planned,
            "epochs": self.epochs,
            "rungs": list(self.rungs),
            "space": {path: _dimension(dimension) for path, dimension in self.cfg.space.items()},
            "env_steps": self.env_steps(),
            "paused": sum(run.is_paused for run in self.runs),
            "best": None if best is None else best.number,
            "importance": importance(self),
            "trials": [self._row(trial) for trial in self.trials],
        }

    def _row(self, trial: Trial) -> dict[str, object]:
        own = [run for run in self.runs if run.trial == trial.number]
        return {
            "number": trial.number,
            "name": self.cfg.run_name(trial.number),
            "state": trial.state,
            "params": dict(trial.params),
            "value": self.value(trial),
            "bound": self.bound(trial),
            "epoch": max(trial.results, default=0),
            "target": trial.target,
            "bracket": trial.bracket,
            "parent": trial.parent,
            "message": trial.message,
            "results": {str(epoch): dict(values) for epoch, values in trial.results.items()},
            "env_steps": sum(run.env_steps for run in own),
            "runs": [run.id for run in sorted(own, key=lambda run: run.seed)],
        }


def _dimension(dimension: Dimension) -> dict[str, object]:
    if dimension.choices is not None:
        return {"choices": list(dimension.choices)}
    return {"low": dimension.low, "high": dimension.high, "log": dimension.log}


def list_document(sweep: Sweep, trials: Sequence[Trial]) -> dict[str, object]:
    """One sweep of a list."""
    summary = SweepSummary(sweep, parse(SweepConfig, json.loads(sweep.config), f"sweep {sweep.name}"), list(trials), [])
    best = summary.best
    return {
        "name": sweep.name,
        "state": sweep.current,
        "created_at": sweep.created_at,
        "trials": len(trials),
        "live": sum(trial.is_live for trial in trials),
        "live_trials": [trial.number for trial in trials if trial.is_live],
        "planned": summary.planned,
        "metric": summary.cfg.metric,
        "direction": summary.cfg.direction,
        "best": None if best is None else best.number,
        "best_value": None if best is None else summary.value(best),
    }


def summary_of(store: StoreReader, name: str) -> SweepSummary:
    sweeps = Sweeps(store.database)
    sweep = sweeps.get(name)
    cfg = parse(SweepConfig, json.loads(sweep.config), f"sweep {name}")
    return SweepSummary(sweep, cfg, sweeps.trials(name), store.runs(sweep=name))


def best_of(trials: Sequence[Trial]) -> Trial | None:
    ended = [trial for trial in trials if trial.state == TrialState.COMPLETED and trial.score is not None]
    return min(ended, key=lambda trial: (-(trial.score or 0.0), trial.number), default=None)


def importance(summary: SweepSummary) -> dict[str, float]:
    """How much the order of the trials follows each setting, in [0, 1], most first: the absolute rank correlation
    (Spearman) for numbers, the correlation ratio of ranks for choices. Trials count where they were all compared: at
    the first rung."""
    epochs = [min(trial.results) for trial in summary.trials if trial.results]
    if not epochs:
        return {}
    first = min(epochs)
    compared = [trial for trial in summary.trials if first in trial.results]
    by_path = {}
    for path, dimension in summary.cfg.space.items():
        own = [trial for trial in compared if path in trial.params]
        if len(own) >= FEWEST:
            ranks = _ranks([summary.sign * float(np.mean(list(trial.results[first].values()))) for trial in own])
            values = [trial.params[path] for trial in own]
            by_path[path] = (
                _correlation(_ranks([number_of(value) for value in values]), ranks)
                if dimension.choices is None
                else _ratio([json.dumps(value) for value in values], ranks)
            )
    return dict(sorted(by_path.items(), key=lambda item: -item[1]))


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Places from 0; equal values share the middle of theirs."""
    array = np.asarray(values, np.float64)
    return np.array([(array < value).sum() + ((array == value).sum() - 1) / 2 for value in array])


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return abs(float((one * other).sum())) / size if size else 0.0


def _ratio(groups: Sequence[str], ranks: np.ndarray) -> float:
    total = float(((ranks - ranks.mean()) ** 2).sum())
    between = 0.0
    for group in set(groups):
        own = ranks[[label == group for label in groups]]
        between += len(own) * float((own.mean() - ranks.mean()) ** 2)
    return float(np.sqrt(between / total)) if total else 0.0


def best_yaml(summary: SweepSummary) -> str | None:
    """The best trial as a complete experiment, ready for `rlctl launch -f`. This imports the algorithm."""
    from rlstudio.control.sweep.search import from_json

    best = summary.best
    if best is None:
        return None
    search = from_json(summary.sweep.config)
    cfg = search.experiment(dict(best.params), summary.cfg.seeds[0], best.number)
    named = cfg.model_copy(update={"name": f"{summary.sweep.name}-best", "imports": ()})
    comment = f"# the best of {len(summary.trials)} trials of sweep {summary.sweep.name}: trial {best.number}\n"
    return comment + to_yaml(named)
