"""What rollout workers gain: `python -m benchmarks.scale [--seconds S] [--backends process,ray] [--only TABLE]`.

speed       two workers beside one, with environments that sleep in every step: PPO and SAC, small and wide layers,
            synchronous and asynchronous
actor       SAC: one asynchronous worker beside a synchronous one, and the returns that both reach
megabyte    PPO over Ray beside processes, with rollouts of 1 MB
auto        what `auto` chooses, beside the rates of all backends

Rates are environment steps per second over S seconds after the first train steps, one thread each. What is compared is
measured in turns, three times; the middle one counts. All tables together take a quarter of an hour, `--only` measures
one of them.

    --model         the costs from which docs/scaling.md predicts, and predictions beside measurements
    --soak          kill workers instead (`benchmarks/soak.py`), --kills times on each of the backends
    --learning      what is learned by two learners, and by two asynchronous workers (`benchmarks/scale_learning.py`)
    --peer rllib    PPO with two workers beside RLlib's, in one run (`benchmarks/scale_peer.py`)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import mean, median
from typing import Any, NamedTuple

from benchmarks.page import table
from benchmarks.sleeping_env import PAUSE
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position

MODULE = "benchmarks.sleeping_env"
TRAIN: dict[str, dict[str, Any]] = {
    "ppo": {"rollout_steps": 64, "passes": 4, "batch_size": 128},
    "sac": {"batch_size": 64, "learning_starts": 64, "train_every": 4, "gradient_steps": 4},
}
SLOW = {"ppo": f"{MODULE}:SleepingCartPole", "sac": f"{MODULE}:SleepingPendulum"}
FAST = {"ppo": "CartPole-v1", "sac": "Pendulum-v1"}
REPEATS = 3
WINDOW = 1.0
"""Seconds, and at least one rollout."""


class Setup(NamedTuple):
    """What differs between two measurements."""

    algo: str
    workers: int = 1
    backend: str = "process"
    mode: str = "sync"
    envs: int = 4
    layers: int = 64
    pause: float | None = PAUSE  # None: a native world, which takes microseconds
    train: dict[str, Any] = {}
    seed: int = 1


def experiment(setup: Setup) -> ExperimentConfig:
    env: dict[str, Any] = {"id": FAST[setup.algo], "num_envs": setup.envs, "seed": setup.seed}
    if setup.pause is not None:
        env |= {"id": SLOW[setup.algo], "vectorization": "sync", "max_episode_steps": 200}
        env["kwargs"] = {"pause": setup.pause}
    return experiment_from(
        {
            "env": env,
            "policy": {"algo": setup.algo, "network": {"hidden_sizes": [setup.layers] * 2}},
            "train": {"epochs": 1000, "steps_per_epoch": 4096, **TRAIN[setup.algo], **setup.train},
            "buffer": {"capacity": 10_000},
            "rollout": {"workers": setup.workers, "backend": setup.backend, "mode": setup.mode},
        },
        imports=[MODULE],
    )


def rate(setup: Setup, seconds: float) -> float:
    """Environment steps per second, after the warm-up: the 90th percentile of windows of a second, so that what other
    programs take of the machine counts little."""
    cfg = experiment(setup)
    built = build(cfg)
    try:
        ticks = iter(train(built.trainer, cfg.train, Position()))
        before = next(ticks).env_steps
        while setup.algo == "sac" and before < 2 * TRAIN["sac"]["learning_starts"]:
            before = next(ticks).env_steps
        rates, started = [], time.perf_counter()
        end = since = started
        while end - started < seconds:
            now, end = next(ticks).env_steps, time.perf_counter()
            if end - since >= WINDOW:
                rates.append((now - before) / (end - since))
                before, since = now, end
        return sorted(rates)[len(rates) * 9 // 10]
    finally:
        built.close()


def beside(one: Setup, other: Setup, seconds: float) -> list[str]:
    """Both rates and other / one, each the median of what was measured in turns."""
    pairs = [(rate(one, seconds), rate(other, seconds)) for _ in range(REPEATS)]
    ratios = sorted(second / first for first, second in pairs)
    rates = (f"{median(side):,.0f}" for side in zip(*pairs, strict=True))
    return [*rates, f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]


CASES = (("ppo", 64, "sync"), ("sac", 64, "sync"), ("sac", 64, "async"), ("sac", 256, "sync"), ("sac", 256, "async"))


def speedups(backends: list[str], seconds: float) -> Iterator[list[str]]:
    for algo, layers, mode in CASES:
        for backend in backends:
            one = Setup(algo, backend=backend, layers=layers, mode=mode)
            yield [algo, f"{layers}-{layers}", mode, backend, *beside(one, one._replace(workers=2), seconds)]


SAC_2MS = {"train_every": 1, "gradient_steps": 1, "steps_per_epoch": 1000}


def free_actor(seconds: float, steps: int, seeds: int) -> Iterator[list[str]]:
    """One worker with one environment of 2 ms, an update for each step."""
    waits = Setup("sac", envs=1, pause=2e-3, train=SAC_2MS)
    free = waits._replace(mode="async")
    yield ["steps/s", *beside(waits, free, seconds)]
    returns = [[learned(side._replace(seed=seed), steps) for seed in range(seeds)] for side in (waits, free)]
    each = (", ".join(f"{value:.0f}" for value in side) for side in returns)
    yield [f"mean return of the last 5 episodes of {steps:,} steps, by seed", *each, ""]


def learned(setup: Setup, steps: int) -> float:
    cfg = experiment(setup)
    built = build(cfg)
    returns: list[float] = []
    try:
        for tick in train(built.trainer, cfg.train, Position()):
            if tick.env_steps >= steps:
                returns += built.trainer.source.take().returns if tick.report is None else []
                break
            if tick.report is not None:
                returns.append(tick.report.metrics["rollout/return_mean"])
        return mean(returns[-1:])
    finally:
        built.close()


BIG = {"rollout_steps": 2560, "passes": 1, "batch_size": 4096, "steps_per_epoch": 2560 * 16}
"""40,960 rows of a rollout are about 2 MB, 1 MB from each worker."""


def choices(backends: list[str], seconds: float) -> Iterator[list[str]]:
    """What the probe of `auto` takes, and the rates of what it could take."""
    for algo, pause in (("ppo", PAUSE), ("ppo", None), ("sac", PAUSE), ("sac", None)):
        setup = Setup(algo, workers=2, pause=pause)
        built = build(experiment(setup._replace(backend="auto")))
        taken = str(built.runtime.whereabouts()["backend"])  # type: ignore[attr-defined]
        built.close()
        rates = {name: rate(setup._replace(backend=name), seconds) for name in ("local", *backends)}
        yield [algo, "5 ms" if pause else "native", taken, *(f"{value:,.0f}" for value in rates.values())]


def print_rows(header: list[str], rows: Iterator[list[str]]) -> None:
    """A table, each row as soon as it is measured."""
    print(table(header, []))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def speed_table(backends: list[str], seconds: float) -> None:
    print("5 ms a step, 4 environments, environment steps per second:\n")
    print_rows(
        ["algorithm", "layers", "mode", "backend", "1 worker", "2 workers", "ratio"], speedups(backends, seconds)
    )


def actor_table(backends: list[str], seconds: float) -> None:
    print("SAC, one worker, one environment of 2 ms, layers 64 and 64:\n")
    print_rows(["", "sync", "async", "ratio"], free_actor(seconds, 6000, 2))


def megabyte_table(backends: list[str], seconds: float) -> None:
    if "ray" in backends:
        print("PPO on a native world, two workers with rollouts of 1 MB each:\n")
        big = Setup("ppo", workers=2, envs=16, pause=None, train=BIG)
        print_rows(["process", "ray", "ratio"], iter([beside(big, big._replace(backend="ray"), seconds)]))


def auto_table(backends: list[str], seconds: float) -> None:
    print("What `auto` takes, two workers, steps per second:\n")
    print_rows(["algorithm", "environment", "auto", "local", *backends], choices(backends, seconds))


TABLES = {"speed": speed_table, "actor": actor_table, "megabyte": megabyte_table, "auto": auto_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--backends", default="process,ray")
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--learning", action="store_true")
    parser.add_argument("--seeds", type=int, default=5, help="of --learning")
    parser.add_argument("--peer", choices=["rllib"])
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of --peer")
    given = parser.parse_args()
    if given.soak:
        from benchmarks.soak import report

        return report(given.kills, given.backends.split(","))
    if given.learning:
        from benchmarks.scale_learning import report as report_learning

        return report_learning(given.seeds)
    if given.peer is not None:
        from benchmarks.scale_peer import compare

        return compare(given.peer, given.seconds, given.repeats)
    if given.model:
        from benchmarks.cost_model import model

        return model(given.seconds)
    for name, print_table in TABLES.items():
        if given.only in (None, name):
            print_table(given.backends.split(","), given.seconds)
            print()


if __name__ == "__main__":
    main()
