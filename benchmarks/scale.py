"""How much faster rollout workers are: `python -m benchmarks.scale [--seconds S] [--backends process,ray]`; and whether
they survive: `--soak [--kills 50]` (`benchmarks/soak.py`).

An environment that sleeps 5 ms in every step, PPO and SAC with layers of 64 and 64: two workers beside one worker on
the same backend, steps per second over S seconds after the first train step. Then what a rollout costs besides acting
on a world that takes microseconds: the time of a rollout on each backend less that of `local`, by worker. One thread
each; on a busy machine the numbers are worth little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import benchmarks.sleeping_env  # noqa: F401, the environments below are named by it
from benchmarks.page import table
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
ENVS = 4


def experiment(algo: str, env_id: str, workers: int, backend: str) -> ExperimentConfig:
    env = {"id": env_id, "num_envs": ENVS, "seed": 1}
    return experiment_from(
        {
            "env": env if env_id == FAST[algo] else {**env, "vectorization": "sync", "max_episode_steps": 200},
            "policy": {"algo": algo, "network": {"hidden_sizes": [64, 64]}},
            "train": {"epochs": 1000, "steps_per_epoch": 4096, **TRAIN[algo]},
            "buffer": {"capacity": 10_000},
            "rollout": {"workers": workers, "backend": backend},
        },
        imports=[MODULE],
    )


def rate(cfg: ExperimentConfig, seconds: float) -> tuple[float, float]:
    """Environment steps per second, and seconds per rollout."""
    built = build(cfg)
    try:
        ticks = iter(train(built.trainer, cfg.train, Position()))
        before = next(ticks).env_steps
        while cfg.policy.algo == "sac" and before < 2 * TRAIN["sac"]["learning_starts"]:
            before = next(ticks).env_steps
        started, steps, rollouts = time.perf_counter(), before, 0
        while time.perf_counter() - started < seconds:
            now = next(ticks).env_steps
            rollouts += now != steps
            steps = now
        elapsed = time.perf_counter() - started
        return (steps - before) / elapsed, elapsed / max(rollouts, 1)
    finally:
        built.close()


def speedups(backends: list[str], seconds: float) -> Iterator[list[str]]:
    for algo, env_id in SLOW.items():
        for backend in backends:
            one, two = (rate(experiment(algo, env_id, workers, backend), seconds)[0] for workers in (1, 2))
            yield [algo, backend, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}"]


def exchanges(backends: list[str], seconds: float) -> Iterator[list[str]]:
    for algo, env_id in FAST.items():
        local = rate(experiment(algo, env_id, 1, "local"), seconds)[1]
        for backend in backends:
            elsewhere = rate(experiment(algo, env_id, 1, backend), seconds)[1]
            times = (f"{1e3 * taken:.2f}" for taken in (local, elsewhere, elsewhere - local))
            yield [algo, backend, *times]


def print_rows(header: list[str], rows: Iterator[list[str]]) -> None:
    """A table, each row as soon as it is measured."""
    print(table(header, []))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--backends", default="process,ray")
    parser.add_argument("--soak", action="store_true", help="kill workers instead")
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    if given.soak:
        from benchmarks.soak import report

        return report(given.kills)
    backends = given.backends.split(",")
    print(f"5 ms a step, {ENVS} environments, layers 64 and 64, environment steps per second:\n")
    header = ["algorithm", "backend", "1 worker", "2 workers", "ratio"]
    print_rows(header, speedups(backends, given.seconds))
    print("\nA fast world, one worker, milliseconds of a rollout with its updates:\n")
    print_rows(["algorithm", "backend", "local", "elsewhere", "difference"], exchanges(backends, given.seconds))


if __name__ == "__main__":
    main()
