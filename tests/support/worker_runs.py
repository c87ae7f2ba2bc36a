"""Short runs over rollout workers, in this process: what they end with, and what happened to their workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.build import Built, build
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.testing.trainers import as_loaded
from support.experiments import tiny


class Ended(NamedTuple):
    state_hash: str
    metrics: list[dict[str, float]]
    restarts: list[str]
    exact: str | None


def with_workers(algo: str, backend: str, workers: int = 2, **changes: Any) -> ExperimentConfig:
    """The tiny experiment in four environments, divided among workers."""
    rollout = {"workers": workers, "backend": backend, **changes.pop("rollout", {})}
    return tiny(algo, env={"num_envs": 4, **changes.pop("env", {})}, rollout=rollout, **changes)


@contextmanager
def opened(cfg: ExperimentConfig) -> Iterator[Built]:
    built = build(cfg)
    try:
        yield built
    finally:
        built.close()


def run(cfg: ExperimentConfig, at_tick: Callable[[int, Built], None] | None = None) -> Ended:
    """From the start to the end; `at_tick` is called with the number of each train step."""
    with opened(cfg) as built:
        position, metrics, restarts = Position(), [], []
        for number, tick in enumerate(train(built.trainer, cfg.train, position)):
            if tick.report is not None:
                metrics.append(tick.report.metrics)
                restarts += tick.report.restarts or []
            if at_tick is not None:
                at_tick(number, built)
        content = capture(built.trainer, {"position": position}, seed=3, attempt=0, meta={})
        return Ended(state_hash(content), metrics, restarts, built.runtime.exact)


def run_in_two(cfg: ExperimentConfig, first: ExperimentConfig) -> str:
    """The state hash of a run that begins as `first` and goes on, from what it saved in its midst, as `cfg`."""
    with opened(first) as built:
        position = Position()
        ticks = train(built.trainer, first.train, position)
        next(ticks)
        next(ticks)
        content = as_loaded(capture(built.trainer, {"position": position}, seed=3, attempt=0, meta={}))
    with opened(cfg) as built:
        position = Position()
        restore(content, built.trainer, {"position": position})
        for _ in train(built.trainer, cfg.train, position):
            pass
        return state_hash(capture(built.trainer, {"position": position}, seed=3, attempt=0, meta={}))


def pids(built: Built) -> list[int]:
    """Of the workers that were started."""
    return [host.pid for host in built.runtime.crew._hosts]  # type: ignore[attr-defined]
