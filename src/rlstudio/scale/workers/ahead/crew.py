"""Workers that are asked for fragments ahead of the learner, whoever is done first.

A request names the version of the weights, so a fragment is the same wherever and however often it is collected. A
worker that dies is replaced while the others go on; the replacement gets the state after the last fragment that was
taken, and the requests that are open: what was cut is collected anew, and no fragment comes twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from rlstudio.core.contracts import State
from rlstudio.core.errors import EnvFault
from rlstudio.envs.gym.env_block import BrokenContract
from rlstudio.envs.gym.worker_handle import WorkerDown
from rlstudio.scale.workers.backends import Backend, Host
from rlstudio.scale.workers.crew import START_TIMEOUT, Crew, Request

PATIENCE = 1.0
"""Seconds without any answer after which the worker that was asked first is watched alone, and so found to be hung."""

LOOK_EVERY = 0.5
"""Seconds between two looks at all workers: while others give fragments nobody waits for one that was stopped."""


class Arrived(NamedTuple):
    worker: int
    request: State
    answer: State


class AheadCrew(Crew):
    def __init__(self, backend: Backend, slices: Sequence[range], **limits: Any) -> None:
        super().__init__(backend, slices, **limits)
        self._open: list[deque[tuple[int, State]]] = [deque() for _ in slices]  # what was asked, and as the how-manieth
        self._preparing = [0] * len(slices)  # answers of a fresh worker that come before those
        self._number = count()
        self._looked_at = 0.0
        self._held: dict[int, Host] = {}  # those that were stopped when last looked at

    def begin(self, request: Request) -> None:
        self._drop()
        super().begin(request)

    def load(self, states: Sequence[State | None]) -> None:
        self._drop()
        super().load(states)

    def ask_for(self, worker: int, request: State) -> None:
        """One fragment more, after those that it was asked for before."""
        if not self._hosts:
            for other in range(len(self.slices)):
                self._renew(other)
        self._open[worker].append((next(self._number), request))
        if not self._preparing[worker]:
            self._hosts[worker].send(request)

    def ask_again(self, worker: int, request: Request, reason: str) -> State:
        try:
            self._count_failure(worker, f"{self.name_of(worker)}: its worker {reason}", None)
            self._open[worker].appendleft((-1, request(worker)))
            self._renew(worker)
            return self.arrival([worker]).answer
        except BaseException:
            self.close()
            raise

    def open_requests(self, worker: int) -> list[State]:
        """What it was asked and has not answered, the oldest first."""
        return [request for _, request in self._open[worker]]

    def arrival(self, workers: Sequence[int]) -> Arrived:
        """The next fragment of one of these, all of which were asked: of those that have one, the one asked first."""
        try:
            while True:
                self._replace_stopped()
                worker = self._next(sorted(workers, key=lambda worker: self._open[worker][0][0]))
                if (arrived := self._receive(worker)) is not None:
                    return arrived
        except BaseException:
            self.close()
            raise

    def _next(self, workers: Sequence[int]) -> int:
        if len(workers) == 1:
            return workers[0]
        ready = self.backend.ready([self._hosts[worker] for worker in workers], PATIENCE)
        return workers[min(ready, default=0)]

    def _replace_stopped(self) -> None:
        """Where a worker was stopped by a signal at two looks in a row."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = now
        held = {worker: host for worker, host in enumerate(self._hosts) if host.is_stopped}
        for worker, host in held.items():
            if self._held.get(worker) is host:
                self._fail(worker, WorkerDown("hung: stopped by a signal"))
                self._renew(worker)
        self._held = held

    def _receive(self, worker: int) -> Arrived | None:
        """The answer to its oldest request. None where it said something else: that it is ready, or that it is down and
        was replaced."""
        is_fresh, timeout = self._preparing[worker] > 0, self._timeouts[worker]
        try:
            answer = self._hosts[worker].reply(max(START_TIMEOUT, timeout) if is_fresh else timeout)
        except BrokenContract:
            raise
        except (EnvFault, WorkerDown) as error:
            self._fail(worker, error, " while it started" if is_fresh else "")
            self._renew(worker)
            return None
        if not is_fresh:
            self._failures[worker] = 0
            return Arrived(worker, self._open[worker].popleft()[1], answer)
        self._preparing[worker] -= 1
        if not self._preparing[worker]:
            self._note(worker, answer)
            for _, request in self._open[worker]:
                self._hosts[worker].send(request)
        return None

    def _renew(self, worker: int) -> None:
        """A fresh worker, which is not waited for."""
        if worker < len(self._hosts):
            self._hosts[worker].end()
            self._hosts[worker] = self.backend.start()
        else:
            self._hosts.append(self.backend.start())
        requests = self._prepared(worker)
        for request in requests:
            self._hosts[worker].send(request)
        self._preparing[worker] = len(requests)

    def _drop(self) -> None:
        """What was asked for is not wanted any more."""
        for worker in range(len(self._hosts)):
            while self._open[worker] or self._preparing[worker]:
                self._receive(worker)
