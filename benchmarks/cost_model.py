"""What workers cost and how far they carry: `python -m benchmarks.scale --model`, for docs/scaling.md.

Measured in a few seconds each: how long acting takes besides the environment, what the learner does for a row, what a
rollout and the weights cost on their way, and how large they are. From these a round of T vector steps of E
environments among W workers takes

    acting     T (E / W) (pause + act)
    learner    W exchange + publish + T E learn
    round      acting + learner, or asynchronously the longer of the two
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.page import table
from benchmarks.scale import PAUSE, TRAIN, Setup, experiment, print_rows, rate
from rlstudio.experiment.training.build import Built, build
from rlstudio.scale.ray_start import start_ray
from rlstudio.scale.workers.collector import WorkersCollector
from rlstudio.scale.workers.message import encode
from rlstudio.scale.workers.process_backend import ProcessBackend

NETWORK = 1.25e9
"""Bytes per second of a network of 10 Gbit/s."""
ENVS = 4


class Costs(NamedTuple):
    act: float  # seconds of a step of one environment, besides its pause
    learn: float  # of the learner for an environment step
    exchange: float  # of the learner for the rollout of one worker
    publish: float  # of the weights, once
    row_bytes: float
    weight_bytes: int
    steps: int  # vector steps of a rollout

    def acting(self, envs: int) -> float:
        """Seconds of a worker with so many environments for a rollout."""
        return self.steps * envs * (PAUSE + self.act)

    def learner(self, envs: int, workers: int) -> float:
        return workers * self.exchange + self.publish + self.steps * envs * self.learn

    def rate(self, envs: int, workers: int, mode: str) -> float:
        parts = self.acting(envs // workers), self.learner(envs, workers)
        return self.steps * envs / (sum(parts) if mode == "sync" else max(parts))


def clocked(call: Callable[[], object], times: int = 50) -> float:
    """Seconds: the 10th percentile of so many calls after the first, so that what other programs take counts little."""
    call()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[times // 10]


def costs(algo: str) -> Costs:
    local, elsewhere = (build(experiment(Setup(algo, backend=name, pause=None))) for name in ("local", "process"))
    try:
        steps = TRAIN[algo].get("rollout_steps", 1)
        here, there = (_collector(built) for built in (local, elsewhere))
        acting = clocked(lambda: here.collect(steps))
        answers = here._crew.ask(lambda worker: {**REQUEST, "steps": steps, "version": here._version})
        weights = here._newest_weights()
        backend = ProcessBackend()
        publish = clocked(lambda: backend.publish(0, dict(weights)))
        backend.close()
        return Costs(
            act=acting / (steps * ENVS),
            learn=_learn(local, algo),
            exchange=max(clocked(lambda: there.collect(steps)) - acting, 0.0),
            publish=publish,
            row_bytes=encode(answers[0]).nbytes / (steps * ENVS),
            weight_bytes=encode(dict(weights)).nbytes,
            steps=steps,
        )
    finally:
        local.close()
        elsewhere.close()


REQUEST = {"op": "collect", "progress": 0.0}


def _collector(built: Built) -> WorkersCollector:
    collector: WorkersCollector = built.trainer.source.collector  # type: ignore[attr-defined]
    return collector


def _learn(built: Built, algo: str) -> float:
    """Seconds for an environment step."""
    trainer: Any = built.trainer
    for _ in range(3):
        trainer.train_step()
    batch, updates = trainer.source.last, TRAIN[algo].get("gradient_steps", 1) / TRAIN[algo].get("train_every", 1)
    seconds = clocked(lambda: trainer.update(batch))
    return seconds / (TRAIN[algo]["rollout_steps"] * ENVS) if algo == "ppo" else seconds * updates


def store_rates() -> Iterator[list[str]]:
    """Into Ray's store and out of it again, as arrays."""
    ray = start_ray("rollout.backend", cpus=1)
    for size in (1 << 20, 16 << 20):
        array = np.zeros(size, np.uint8)
        put = clocked(lambda array=array: ray.put(array))  # type: ignore[misc]
        kept = ray.put(array)
        got = clocked(lambda kept=kept: ray.get(kept))  # type: ignore[misc]
        yield [f"{size >> 20} MB", f"{1e3 * put:.2f} ms", f"{1e3 * got:.2f} ms", f"{size / (put + got) / 1e9:.1f} GB/s"]
        STORE[size] = size / (put + got)


STORE: dict[int, float] = {}


def far(algo: str, cost: Costs) -> Iterator[list[str]]:
    """More workers than there are here, each with four environments."""
    for workers in (10, 100, 1000):
        envs = ENVS * workers
        rows = cost.steps * envs
        moved = rows * cost.row_bytes + workers * cost.weight_bytes
        seconds = {
            "acting": cost.acting(ENVS),
            "learner": cost.learner(envs, workers),
            "network": moved / NETWORK,
            "store": moved / min(STORE.values()),
        }
        together = sum(seconds.values()), max(seconds.values())
        shares = (f"{1e3 * value:,.1f}" for value in seconds.values())
        rates = (f"{rows / value:,.0f}" for value in together)
        yield [algo, f"{workers:,}", *shares, *rates, max(seconds, key=lambda name: seconds[name])]


def near(algo: str, cost: Costs, seconds: float) -> Iterator[list[str]]:
    """Predicted and measured: four environments in all."""
    for workers in (1, 2, 4):
        for mode in ("sync", "async"):
            expected = cost.rate(ENVS, workers, mode)
            found = rate(Setup(algo, workers=workers, mode=mode), seconds)
            yield [algo, str(workers), mode, f"{expected:,.0f}", f"{found:,.0f}", f"{found / expected:.2f}"]


def model(seconds: float) -> None:
    found = {algo: costs(algo) for algo in TRAIN}
    print("What is measured:\n")
    rows = [
        [algo, *(f"{1e6 * value:,.0f}" for value in cost[:4]), f"{cost.row_bytes:.0f}", f"{cost.weight_bytes:,}"]
        for algo, cost in found.items()
    ]
    names = ["act, us", "learn, us", "exchange, us", "publish, us", "bytes of a row", "bytes of weights"]
    print(table(["algorithm", *names], rows))
    print("\nRay's store:\n")
    print_rows(["object", "put", "get", "rate"], store_rates())
    print("\nHow far it carries, milliseconds of a round and steps per second, 5 ms a step:\n")
    header = ["algorithm", "workers", "acting", "learner", "network", "store", "sync", "async", "longest"]
    print_rows(header, (row for algo, cost in found.items() for row in far(algo, cost)))
    print("\nPredicted and measured, 5 ms a step, 4 environments, processes:\n")
    header = ["algorithm", "workers", "mode", "predicted", "measured", "ratio"]
    print_rows(header, (row for algo, cost in found.items() for row in near(algo, cost, seconds)))
