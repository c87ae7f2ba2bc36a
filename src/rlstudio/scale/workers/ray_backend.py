"""Workers as Ray actors, here or on other machines: weights and rollouts are objects of Ray's store, one each."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import Incompatible, message_of
from rlstudio.core.host.process import PULSE, Owner, is_here, is_stopped, send, this_process
from rlstudio.envs.gym.worker_handle import WorkerDown, fault_from
from rlstudio.scale.ray_start import start_ray
from rlstudio.scale.workers.backends import IN_STEP, Lookahead
from rlstudio.scale.workers.message import copied, decode, encode
from rlstudio.scale.workers.process_worker import begin, fault
from rlstudio.scale.workers.slice_worker import SliceWorker

FIELD = "rollout.backend"
GLANCE = 0.5
"""Seconds between two questions to a worker that has not answered yet."""
SILENT = 2.0
"""Seconds without an answer to such a question after which it is looked up whether the process was stopped."""


class RayWorker:
    """The actor. One thread answers requests; the other answers `beat`, so that a long rollout is seen to go on."""

    def __init__(self) -> None:
        self._worker: SliceWorker | None = None

    def about(self) -> tuple[object, ...]:
        """Which process this is."""
        owner = this_process()
        return owner.host, owner.boot_id, owner.pid, owner.pid_start, owner.pid_namespace

    def beat(self) -> int:
        return PULSE.vector_steps

    def answer(self, message: np.ndarray, weights: np.ndarray | None) -> np.ndarray | list[str]:
        """The answer as one array, which Ray moves without a copy; or a fault."""
        try:
            request = decode(message)
            self._worker = self._worker or begin(request)
            chosen = {} if weights is None else copied(decode(weights))  # what Ray gives may not be written to
            assert isinstance(chosen, dict)
            return encode(self._worker.answer(request, chosen))
        except (Exception, SystemExit) as error:
            return fault(error)


class RayBackend:
    name = "ray"
    replaces = True

    def __init__(self, workers: int, address: str | None = None, ahead: Lookahead = IN_STEP) -> None:
        """At `address`, where each worker asks for a CPU, or in a Ray of our own, which may be from an earlier run of
        this process with fewer of them."""
        self._ray = start_ray(FIELD, address, cpus=workers)
        if address is not None:
            self._refuse_too_many(workers, address)
        self._ray.method(concurrency_group="requests")(RayWorker.answer)  # one after the other,
        self._ray.method(concurrency_group="beats")(RayWorker.beat)  # and meanwhile these
        groups = {"requests": 1, "beats": 1}
        options: Any = {"num_cpus": 0 if address is None else 1, "max_restarts": 0, "concurrency_groups": groups}
        self._actor = self._ray.remote(**options)(RayWorker)
        self._ahead = ahead
        self.weights: dict[int, Any] = {}  # by version

    def _refuse_too_many(self, workers: int, address: str) -> None:
        """Ray would wait for nodes that nobody promised."""
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if cpus < workers:
            raise Incompatible(
                f"rollout.workers: {workers} workers ask for a CPU each, and the Ray cluster at {address} has {cpus};"
                f" use {max(cpus, 1)} or fewer, or add nodes"
            )

    def start(self) -> RayHost:
        return RayHost(self._ray, self._actor.remote(), self)

    def publish(self, version: int, weights: State) -> None:
        self.weights[version] = self._ray.put(encode(weights))
        self.weights.pop(version - self._ahead.versions - 1, None)

    def ready(self, hosts: Sequence[RayHost], timeout: float) -> list[int]:
        number = {host.oldest: index for index, host in enumerate(hosts)}
        come, _ = self._ray.wait(list(number), num_returns=1, timeout=timeout)
        return [number[reference] for reference in come]

    def close(self) -> None:
        self.weights.clear()


class RayHost:
    def __init__(self, ray: Any, actor: Any, backend: RayBackend) -> None:
        self._ray, self._actor, self._backend = ray, actor, backend
        self._about = actor.about.remote()
        self._owner: Owner | None = None
        self._answers: deque[Any] = deque()

    @property
    def pid(self) -> int | None:
        """Of the actor, once it has answered."""
        return None if self._owner is None else self._owner.pid

    @property
    def oldest(self) -> Any:
        """The answer that comes next."""
        return self._answers[0]

    def send(self, request: State) -> None:
        weights = self._backend.weights[request["version"]] if "version" in request else None
        self._answers.append(self._actor.answer.remote(encode(request), weights))

    def reply(self, timeout: float) -> State:
        if self._owner is None:
            self._owner = Owner(*self._awaited(self._about, timeout, None))
        answer = self._awaited(self._answers.popleft(), timeout, self._owner)
        if isinstance(answer, list):
            raise fault_from(*answer)
        return decode(answer)

    def _awaited(self, reference: Any, timeout: float, owner: Owner | None) -> Any:
        """The value; WorkerDown where the actor died, was stopped, or made no step for `timeout` seconds."""
        steps, since, beat, asked = -1, time.monotonic(), None, 0.0
        try:
            while not self._ray.wait([reference], timeout=GLANCE)[0]:
                now = time.monotonic()
                if beat is None:
                    beat, asked = self._actor.beat.remote(), now
                elif self._ray.wait([beat], timeout=0)[0]:
                    reached, beat = self._ray.get(beat), None
                    if reached != steps:
                        steps, since = reached, now
                        PULSE.others += 1  # whoever watches this process sees that it does not hang
                elif now - asked >= SILENT and owner is not None and is_here(owner) and is_stopped(owner.pid):
                    raise WorkerDown(f"hung: stopped by a signal, no heartbeat for {SILENT:g} s")
                if now - since >= timeout:
                    where = "" if owner is not None else "; perhaps no node has a free CPU (rlctl cluster status)"
                    raise WorkerDown(f"hung: no answer within {timeout:g} s{where}")
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise WorkerDown(f"died: {message_of(error)[:300]}") from None

    @property
    def is_stopped(self) -> bool:
        """Of an actor of this machine."""
        return self._owner is not None and is_here(self._owner) and is_stopped(self._owner.pid)

    def ask_to_stop(self) -> None:
        """An actor has nothing to save: it is killed."""

    def end(self, grace: float = 0.0) -> None:
        self._ray.kill(self._actor, no_restart=True)
        if self._owner is not None and self.is_stopped:
            send(self._owner, signal.SIGKILL)  # it does not listen to Ray
