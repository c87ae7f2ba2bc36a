"""Where workers live: what a backend and the worker that it started offer, and the backend of this process.

A backend keeps weights where its workers read them: the newest version, and as many older ones as requests that are not
answered yet may name. A Host is one worker: requests go in, answers come out in the same order, and one that is gone or
hangs is told by `WorkerDown`. All backends give the same bits: they differ in where `SliceWorker.answer` is called, and
in nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch

from rlstudio.core.contracts import State
from rlstudio.scale.workers.slice_worker import SliceWorker


class Lookahead(NamedTuple):
    """How far workers are asked ahead of the learner; of synchronous ones nothing is."""

    fragments: int = 0  # of each worker, asked for and not learned from
    versions: int = 0  # that the weights may be older than the newest


IN_STEP = Lookahead()


class Host(Protocol):
    def send(self, request: State) -> None:
        """Nothing is raised where the worker is gone: `reply` will say so."""
        ...

    def reply(self, timeout: float) -> State:
        """The answer to the oldest request that has none yet, valid until the next one; `timeout` seconds without
        progress count as a hang."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether a signal holds it, as far as that is known from here; one that is busy or gone is not stopped."""
        ...

    def ask_to_stop(self) -> None: ...

    def end(self, grace: float = 0.0) -> None:
        """Gone when this returns: by itself within `grace` seconds, else killed."""
        ...


class Backend(Protocol):
    name: str
    replaces: bool  # whether a worker can be replaced by a fresh one

    def start(self) -> Host:
        """A new worker; it may take a while until it answers."""
        ...

    def publish(self, version: int, weights: State) -> None:
        """What requests may name from now on. No request that is not answered names a version that is older than this
        one by more than the lookahead."""
        ...

    def ready(self, hosts: Sequence[Any], timeout: float) -> list[int]:
        """Which of these, of its own, have something to say; none after so many seconds."""
        ...

    def close(self) -> None: ...


class LocalBackend:
    """Slices one after the other in this process: what the others are compared with, and all that fast worlds need."""

    name = "local"
    replaces = False

    def __init__(self, ahead: Lookahead = IN_STEP) -> None:
        self._ahead = ahead
        self.weights: dict[int, State] = {}

    def start(self) -> Host:
        return _LocalHost(self)

    def publish(self, version: int, weights: State) -> None:
        self.weights[version] = weights
        self.weights.pop(version - self._ahead.versions - 1, None)

    def ready(self, hosts: Sequence[Any], timeout: float) -> list[int]:
        return list(range(len(hosts)))

    def close(self) -> None:
        """Nothing is open."""


class _LocalHost:
    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self._worker: SliceWorker | None = None
        self._requests: deque[State] = deque()

    def send(self, request: State) -> None:
        self._requests.append(request)

    def reply(self, timeout: float) -> State:
        request = self._requests.popleft()
        if self._worker is None:
            self._worker = SliceWorker.of(request)
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(1)  # as in a worker of its own
            return self._worker.answer(request, self._backend.weights.get(request.get("version", -1), {}))
        finally:
            torch.set_num_threads(threads)

    @property
    def is_stopped(self) -> bool:
        return False

    def ask_to_stop(self) -> None:
        """It ends with this process."""

    def end(self, grace: float = 0.0) -> None:
        if self._worker is not None:
            self._worker.close()
