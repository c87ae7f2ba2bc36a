"""What an epoch cost: where its time went, how long steps took, what the process used. Outside every promise of
reproducibility, and read once per epoch."""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress

import numpy as np
import torch

from rlstudio.core.host.phases import PHASES
from rlstudio.core.host.trace import TRACE

MOST_STEPS = 4096
"""The newest train steps of an epoch, of which percentiles are taken."""

PERCENTILES = (50, 95, 99)
PAGE = os.sysconf("SC_PAGE_SIZE")


class EpochClock:
    """Started with the loop. A train step is what stands between `start` and `stop`: collecting and learning."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MOST_STEPS)  # of each train step,
        self._collecting: deque[float] = deque(maxlen=MOST_STEPS)  # and how much of it was collecting
        self._learning = 0.0
        self._since = time.perf_counter()
        self._cpu = time.process_time()
        self._phases = (PHASES.collect, PHASES.evaluate, PHASES.checkpoint)

    def start(self) -> None:
        self._started, self._collected = time.perf_counter(), PHASES.collect

    def stop(self) -> None:
        seconds, collecting = time.perf_counter() - self._started, PHASES.collect - self._collected
        self._learning += seconds - collecting
        self._seconds.append(seconds)
        self._collecting.append(collecting)
        TRACE.span("update", self._started + collecting, self._started + seconds)

    def take(self) -> dict[str, float]:
        """Metrics of the time since the last report. An evaluation and a checkpoint come after the report of their
        epoch, and so count in the next one."""
        wall, cpu = time.perf_counter() - self._since, time.process_time() - self._cpu
        now = (PHASES.collect, PHASES.evaluate, PHASES.checkpoint)
        collect, evaluate, checkpoint = (new - old for new, old in zip(now, self._phases, strict=True))
        parts = {"collect": collect, "update": self._learning, "evaluate": evaluate, "checkpoint": checkpoint}
        metrics = {f"time/{name}_share": seconds / wall for name, seconds in parts.items()}
        steps = np.array(self._seconds)
        updates = steps - np.array(self._collecting)
        for name, values in (("step", steps), ("update", updates)):
            marks = np.percentile(1000 * values, PERCENTILES) if len(values) else [np.nan] * len(PERCENTILES)
            metrics |= {f"time/{name}_ms_p{p}": float(mark) for p, mark in zip(PERCENTILES, marks, strict=True)}
        metrics |= {"system/cpu_share": cpu / wall, "system/rss_mb": _rss_mb(), **_gpu()}
        self._restart()
        return metrics


def _rss_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE / 2**20


def _gpu() -> dict[str, float]:
    """Memory that tensors hold now, and held at most; how busy the GPU is only where its driver can be asked."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    now, most = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    metrics = {"system/gpu_memory_mb": now / 2**20, "system/gpu_memory_max_mb": most / 2**20}
    with suppress(Exception):  # the bindings are an optional package, and fail in their own ways
        metrics["system/gpu_use"] = torch.cuda.utilization() / 100
    return metrics
