"""All workers of a run: asked together, and replaced one by one when they die, hang or give numbers that are none.

A replacement gets the state that its slice had after the last whole rollout, and the newest weights, before the request
is made again. So a rollout that was cut is collected anew from where it began, no part of it is used, and where the
environments repeat themselves the run goes on as if nothing had happened, bit for bit.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence

from rlstudio.core.contracts import State
from rlstudio.core.errors import EnvFault
from rlstudio.envs.gym.env_block import BrokenContract
from rlstudio.envs.gym.worker_handle import WorkerDown, end_all, pause_before
from rlstudio.scale.workers.backends import Backend, Host
from rlstudio.scale.workers.message import copied

CLOSE_GRACE = 2.0  # seconds all workers together get to close their envs
START_TIMEOUT = 180.0  # seconds until a new worker has imported everything and made its environments

Request = Callable[[int], State]
"""What a worker is asked, by its number."""


class Crew:
    def __init__(
        self,
        backend: Backend,
        slices: Sequence[range],
        *,
        step_timeout: float,
        max_restarts: int,
        first_env: int = 0,
    ) -> None:
        """`step_timeout` is for one call of one environment; `max_restarts` counts failures of a worker in a row;
        `first_env` is what the run calls the first environment of the first slice."""
        self.backend = backend
        self.slices = tuple(slices)
        self.restart_reasons: list[str] | None = [] if backend.replaces else None
        self.exact: str | None = None
        self._timeouts = [step_timeout * len(own) for own in slices]
        self._max_restarts = max_restarts
        self._first_env = first_env
        self._begin: Request | None = None
        self._hosts: list[Host] = []
        self._failures = [0] * len(slices)
        self._pause = time.sleep
        self.states: list[State | None] = [None] * len(slices)  # after the last whole rollout of each
        self.restarted: list[int] = []  # environments that were not put back into the midst of their episode
        self._finalizer = weakref.finalize(self, end_all, self._hosts, CLOSE_GRACE, backend.close)

    def begin(self, request: Request) -> None:
        """Fresh episodes for all; the workers are started at the first question."""
        self._begin = request
        self.states = [None] * len(self.slices)
        if self._hosts:
            self.ask(request)

    def load(self, states: Sequence[State | None]) -> None:
        self.states = list(states)
        self.restarted = []
        if not self._hosts:
            self._start(range(len(self.slices)))
            return
        for worker, answer in enumerate(self.ask(lambda worker: self._prepared(worker)[-1])):
            self._note(worker, answer)

    def ask(self, request: Request) -> list[State]:
        """The answers of all, by the number of the worker."""
        if not self._finalizer.alive:
            raise EnvFault("the rollout workers of this run are closed")
        try:
            if not self._hosts:
                self._start(range(len(self.slices)))
            return self._ask(request, range(len(self.slices)))
        except BaseException:
            self.close()  # unread answers would be taken for those of the next question
            raise

    def ask_again(self, worker: int, request: Request, reason: str) -> State:
        """Replace one worker for what it answered, and ask the fresh one."""
        try:
            self._count_failure(worker, f"{self.name_of(worker)}: its worker {reason}", None)
            self._start([worker])
            return self._ask(request, [worker])[0]
        except BaseException:
            self.close()
            raise

    def _ask(self, request: Request, workers: Sequence[int]) -> list[State]:
        answers: dict[int, State] = {}
        asked = list(workers)
        while asked:
            for worker in asked:
                self._hosts[worker].send(request(worker))
            failed = []
            for worker in asked:
                try:
                    answers[worker] = self._hosts[worker].reply(self._timeouts[worker])
                    self._failures[worker] = 0
                except BrokenContract:
                    raise
                except (EnvFault, WorkerDown) as error:
                    self._fail(worker, error)
                    failed.append(worker)
            self._start(failed)
            asked = failed
        return [answers[worker] for worker in workers]

    def _start(self, workers: Sequence[int]) -> None:
        """Fresh workers where these were, each as far as its last whole rollout."""
        while workers:
            for worker in workers:
                if len(self._hosts) > worker:
                    self._hosts[worker].end()
                    self._hosts[worker] = self.backend.start()
                else:
                    self._hosts.append(self.backend.start())
            failed = []
            for worker in workers:
                for request in self._prepared(worker):
                    self._hosts[worker].send(request)
            for worker in workers:
                try:
                    for _ in self._prepared(worker):
                        answer = self._hosts[worker].reply(max(START_TIMEOUT, self._timeouts[worker]))
                    self._note(worker, answer)
                except BrokenContract:
                    raise
                except (EnvFault, WorkerDown) as error:
                    self._fail(worker, error, " while it started")
                    failed.append(worker)
            workers = failed

    def _prepared(self, worker: int) -> list[State]:
        """What a fresh worker is asked first."""
        assert self._begin is not None
        state = self.states[worker]
        return [self._begin(worker), *([] if state is None else [_load(state)])]

    def _note(self, worker: int, answer: State) -> None:
        """What came of putting a slice back."""
        self.exact = answer["exact"] or self.exact
        self.restarted += [self.slices[worker][env] for env in answer["restarted"]]

    def _fail(self, worker: int, error: EnvFault | WorkerDown, when: str = "") -> None:
        is_down = isinstance(error, WorkerDown)
        reason = f"{self.name_of(worker)}: its worker {error}{when}" if is_down else str(error)
        self._count_failure(worker, reason, error)

    def _count_failure(self, worker: int, reason: str, error: Exception | None) -> None:
        self._failures[worker] += 1
        if self.restart_reasons is None:
            raise EnvFault(reason) from error
        if self._failures[worker] > self._max_restarts:
            raise EnvFault(f"{reason}; gave up after {self._max_restarts} restarts") from error
        self.restart_reasons.append(reason)
        self._pause(pause_before(self._failures[worker]))

    def name_of(self, worker: int) -> str:
        first, last = (self._first_env + env for env in (self.slices[worker][0], self.slices[worker][-1]))
        return f"envs {first} to {last}" if last > first else f"env {first}"

    def keep(self, worker: int, answer: State) -> None:
        """The state that follows a rollout which will be used."""
        state = copied(answer["state"])
        assert isinstance(state, dict)
        self.states[worker] = state
        self.exact = answer["exact"] or self.exact

    def close(self) -> None:
        """Within CLOSE_GRACE and the time it takes to kill; again: nothing."""
        self._finalizer()


def _load(state: State) -> State:
    return {"op": "load", "state": state}
