"""Which backend is the fastest here, by a short probe. All give the same bits, so a clock may decide.

One slice acts in this process for a fraction of a second. With t seconds for a vector step of a slice, W workers on C
cores and T steps a rollout, the run waits for a synchronous rollout for about

    local    W T t
    process  ceil(W / C) T t + W * 0.3 ms
    ray      T t + W * 2.5 ms

The last terms are rough estimates of the exchange. Asynchronous workers act while the run learns, unless they are in
its own process: there W T t stays, and of the other two only the exchange. A single core does one after the other, so
nothing is faster than `local` on it. Ray is considered only where a cluster is named, since on one machine it never
beats processes; its cores are not known, so it is taken to have one for each worker.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import NamedTuple

from rlstudio.data.collect.noise import Share
from rlstudio.scale.workers.job import RolloutJob
from rlstudio.scale.workers.slice_worker import SliceWorker

SECONDS = 0.2
"""So long the slice acts; a single step may take longer."""
MOST_STEPS = 64
EXCHANGE = {"process": 0.3e-3, "ray": 2.5e-3}
"""Seconds of a rollout for each worker, besides acting."""
CLEARLY = 0.9
"""Another backend than `local` must be expected to need less than this share of its time."""


class BackendChoice(NamedTuple):
    backend: str
    reason: str


class Work(NamedTuple):
    envs: int  # of a slice
    workers: int
    steps: int  # vector steps of a rollout
    cluster: str | None = None  # where a Ray is that others started
    ahead: bool = False  # whether workers act while the run learns


def choose(job: RolloutJob, work: Work, cores: int | None = None) -> BackendChoice:
    seconds = step_seconds(job, work)
    return fastest(seconds, work, cores or len(os.sched_getaffinity(0)))


def fastest(seconds: float, work: Work, cores: int) -> BackendChoice:
    """By the model above, from the seconds of a vector step."""
    acting = work.steps * seconds
    waits_here = 0.0 if work.ahead and cores > 1 else -(-work.workers // cores) * acting
    expected = {"local": work.workers * acting, "process": waits_here + work.workers * EXCHANGE["process"]}
    if work.cluster is not None:
        expected["ray"] = (0.0 if work.ahead else acting) + work.workers * EXCHANGE["ray"]
    best = min(expected, key=lambda name: expected[name])
    name = best if expected[best] < CLEARLY * expected["local"] else "local"
    times = ", ".join(f"{name} {1e3 * time:.3g} ms" for name, time in expected.items())
    return BackendChoice(name, f"auto, the run is expected to wait for a rollout: {times}")


def step_seconds(job: RolloutJob, work: Work) -> float:
    """A vector step of the first slice, with weights as they are before learning."""
    with closing(SliceWorker(job, Share(0, work.envs * work.workers), work.envs, 0)) as worker:
        place = {"seed": 0, "path": "/probe", "first_env": 0, "run_envs": work.envs * work.workers}
        worker.answer({"op": "begin", **place}, {})
        worker.acting.fill(1)
        steps, started = 0, time.perf_counter()
        while steps < MOST_STEPS and time.perf_counter() - started < SECONDS:
            worker.acting.fill(1)
            steps += 1
        return (time.perf_counter() - started) / steps
