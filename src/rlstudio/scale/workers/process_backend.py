"""Workers as processes of this machine: requests go through a pipe, weights and rollouts through shared memory."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.host.process import PULSE, is_stopped
from rlstudio.envs.gym.worker_handle import WorkerHandle
from rlstudio.scale.workers.backends import IN_STEP, Lookahead
from rlstudio.scale.workers.forked import WorkerTemplate
from rlstudio.scale.workers.message import decode, encode
from rlstudio.scale.workers.process_worker import COUNTERS, STEPS


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
    """Each version of the weights that a request may still name has a place of its own in the memory. `modules` are
    imported before workers are forked."""

    name = "process"
    replaces = True

    def __init__(self, ahead: Lookahead = IN_STEP, modules: Sequence[str] = ()) -> None:
        self.ahead = ahead
        self.weights = SharedMemory("weights")
        self.template = WorkerTemplate(modules)
        self._place_size = 0
        self._finalizer = weakref.finalize(self, _close_all, self.weights, self.template)

    def start(self) -> ProcessHost:
        return ProcessHost(self)

    def publish(self, version: int, weights: State) -> None:
        encode(weights, lambda size: self._place_for(version, size))

    def _place_for(self, version: int, size: int) -> np.ndarray:
        if not self._place_size:  # those of later versions are as large
            self._place_size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        first = self.place(version)
        return self.weights.allocate(first + size)[first:]

    def place(self, version: int) -> int:
        return version % (self.ahead.versions + 1) * self._place_size

    def ready(self, hosts: Sequence[ProcessHost], timeout: float) -> list[int]:
        number = {host.control: index for index, host in enumerate(hosts)}
        return [number[control] for control in wait(list(number), timeout)]  # type: ignore[index]

    def close(self) -> None:
        self._finalizer()


def _close_all(weights: SharedMemory, template: WorkerTemplate) -> None:
    weights.close()
    template.close()


class ProcessHost:
    """An answer stays where it is until as many others have come as the worker has memories besides."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        # Two at least: a fresh worker is asked to begin and to load before either answer is read.
        self._memories = [SharedMemory("rollout") for _ in range(max(backend.ahead.fragments, 1) + 1)]
        self._answers = 0
        self._counters = self._memories[0].bytes[: COUNTERS * 8].view(np.int64)
        try:
            fds = [memory.fd for memory in self._memories]
            self._handle = WorkerHandle(backend.weights.fd, *fds, start=backend.template.fork)
        except BaseException:
            self._close_memories()
            raise
        self.pid = self._handle.process.pid
        self._is_up = False

    @property
    def control(self) -> Connection:
        return self._handle.control

    def send(self, request: State) -> None:
        if "version" in request:
            request = {**request, "place": self._backend.place(request["version"])}
        self._handle.send(encode(request).tobytes())

    def reply(self, timeout: float) -> State:
        if not self._is_up:
            self._handle.reply(timeout)
            self._is_up = True
        size = self._handle.reply(timeout, _Watched(self._counters))["size"]
        memory = self._memories[self._answers % len(self._memories)]
        self._answers += 1
        return decode(memory.allocate(mmap.PAGESIZE + size)[mmap.PAGESIZE :])

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.pid)

    def ask_to_stop(self) -> None:
        self._handle.ask_to_stop()

    def end(self, grace: float = 0.0) -> None:
        if self._handle.is_open:
            self._handle.end(grace)
            self._close_memories()

    def _close_memories(self) -> None:
        for memory in self._memories:
            memory.close()


class _Watched:
    """How far a worker has come, asked for again and again while its answer is awaited."""

    def __init__(self, counters: np.ndarray) -> None:
        self._counters, self._steps = counters, -1

    def __call__(self) -> int:
        steps = int(self._counters[STEPS])
        if steps != self._steps:
            self._steps = steps
            PULSE.others += 1  # whoever watches this process sees that it does not hang
        return steps
