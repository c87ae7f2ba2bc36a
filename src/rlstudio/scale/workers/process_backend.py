"""Workers as processes of this machine: requests go through a pipe, weights and rollouts through shared memory."""

from __future__ import annotations

import mmap
import os
import time
import weakref

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.host.process import PULSE, is_stopped
from rlstudio.envs.gym.worker_handle import WorkerDown, WorkerHandle
from rlstudio.scale.workers.message import decode, encode
from rlstudio.scale.workers.process_worker import BEATS, COUNTERS, MODULE, STEPS

SILENT = 2.0
"""Seconds without a heartbeat after which it is looked up whether the process was stopped."""


class SharedMemory:
    """Memory without a name that grows, mapped here; others map the same descriptor."""

    def __init__(self, name: str, size: int = mmap.PAGESIZE) -> None:
        self.fd = os.memfd_create(f"rlstudio-{name}")
        self._map: mmap.mmap | None = None
        self.bytes = self.allocate(size)

    def allocate(self, size: int) -> np.ndarray:
        """The first `size` bytes; what was mapped before stays as long as somebody has it."""
        if self._map is None or len(self._map) < size:
            os.ftruncate(self.fd, max(size, os.fstat(self.fd).st_size))
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
            self.bytes = np.frombuffer(self._map, np.uint8)
        return self.bytes[:size]

    def close(self) -> None:
        os.close(self.fd)


class ProcessBackend:
    name = "process"
    replaces = True

    def __init__(self) -> None:
        self.weights = SharedMemory("weights")
        self._finalizer = weakref.finalize(self, self.weights.close)

    def start(self) -> ProcessHost:
        return ProcessHost(self.weights.fd)

    def publish(self, weights: State) -> None:
        encode(weights, self.weights.allocate)

    def close(self) -> None:
        self._finalizer()


class ProcessHost:
    def __init__(self, weights_fd: int) -> None:
        self._memory = SharedMemory("rollout")
        self._counters = self._memory.bytes[: COUNTERS * 8].view(np.int64)
        try:
            self._handle = WorkerHandle(self._memory.fd, weights_fd, module=MODULE)
        except BaseException:
            self._memory.close()
            raise
        self.pid = self._handle.process.pid
        self._is_up = False

    def send(self, request: State) -> None:
        self._handle.send(encode(request).tobytes())

    def reply(self, timeout: float) -> State:
        if not self._is_up:
            self._handle.reply(timeout)
            self._is_up = True
        size = self._handle.reply(timeout, _Watched(self.pid, self._counters))["size"]
        return decode(self._memory.allocate(mmap.PAGESIZE + size)[mmap.PAGESIZE :])

    def ask_to_stop(self) -> None:
        self._handle.ask_to_stop()

    def end(self, grace: float = 0.0) -> None:
        if self._handle.is_open:
            self._handle.end(grace)
            self._memory.close()


class _Watched:
    """How far a worker has come, asked for again and again while its answer is awaited. WorkerDown where it was stopped
    by a signal: then its own thread does not beat either."""

    def __init__(self, pid: int, counters: np.ndarray) -> None:
        self._pid, self._counters = pid, counters
        self._beats, self._since, self._steps = -1, time.monotonic(), -1

    def __call__(self) -> int:
        beats, now = int(self._counters[BEATS]), time.monotonic()
        if beats != self._beats:
            self._beats, self._since = beats, now
        elif now - self._since >= SILENT and is_stopped(self._pid):
            raise WorkerDown(f"hung: stopped by a signal, no heartbeat for {SILENT:g} s")
        steps = int(self._counters[STEPS])
        if steps != self._steps:
            self._steps = steps
            PULSE.others += 1  # whoever watches this process sees that it does not hang
        return steps
