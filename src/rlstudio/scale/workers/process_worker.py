"""What a worker process does; it is forked by `template.py`, with descriptors: CONTROL LIFELINE WEIGHTS MEMORY...

Requests come as messages on CONTROL; an answer is a message behind the first page of a MEMORY, one after the other, and
its size as JSON on CONTROL, or a fault. In the first page of the first one a thread shows how many vector steps
were taken. WEIGHTS has versions of the weights; a request names the place of its own. The process
ignores Ctrl-C, which is the learner's to handle, and ends with the learner.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import RLStudioError, message_of, traceback_of
from rlstudio.core.host.process import PULSE, end_with
from rlstudio.core.host.trace import TRACE
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.core.rng import seed_all
from rlstudio.envs.seeds import worker_seed
from rlstudio.scale.workers.job import RolloutJob
from rlstudio.scale.workers.message import decode, encode
from rlstudio.scale.workers.slice_worker import SliceWorker

STEPS, COUNTERS = 0, 1
"""Places in the first page, int64."""
PACE = 0.1
"""Seconds between two looks at how far the environments have come."""


class _Mapped:
    """Shared memory as this process sees it; it grows with what is written or read."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)

    def first(self, size: int | None = None) -> np.ndarray:
        """The first bytes, or all that there are."""
        present = os.fstat(self._fd).st_size
        if size is not None and size > present:
            os.ftruncate(self._fd, size)
            present = size
        if present > len(self._map):
            self._map = mmap.mmap(self._fd, present)
        return np.frombuffer(self._map, np.uint8)[: size if size is not None else present]


def begin(request: State) -> SliceWorker:
    """The worker of this process. One thread, and the global generators as in no other process."""
    import torch

    torch.set_num_threads(1)
    job = RolloutJob.from_json(request["job"])
    job.prepare()
    TRACE.join(f"rollout worker of environment {request['first_env']} and on")
    seed_all(worker_seed(job.env_config.seed, request["first_env"]))  # before any environment is made
    OWN_METRICS.refusal = (
        "does not reach the run from a rollout worker; put the number into `info` and its key into env.infos, or train"
        " without rollout.workers"
    )
    return SliceWorker.of(request)


def fault(error: BaseException) -> list[str]:
    """Name, text and traceback, from which the learner makes the error again."""
    if isinstance(error, RLStudioError):
        return [type(error).__name__, str(error), traceback_of(error)]
    return ["EnvFault", f"{type(error).__name__}: {message_of(error)}", traceback_of(error)]


def serve(control: Connection, memories: Sequence[_Mapped], weights: _Mapped) -> None:
    """Answer requests until the learner closes the pipe or says so."""
    worker: SliceWorker | None = None
    free = cycle(memories)
    control.send_bytes(b".{}")
    while True:
        try:
            received = control.recv_bytes()
        except (EOFError, OSError):
            break
        if received == b"C":
            break
        try:
            request = decode(np.frombuffer(received, np.uint8))
            worker = worker or begin(request)
            chosen = decode(weights.first()[request["place"] :]) if "version" in request else {}
            started = time.perf_counter()
            answer, memory = worker.answer(request, chosen), next(free)
            TRACE.span(request["op"], started)
            size = len(encode(answer, partial(_answer_in, memory)))
            control.send_bytes(b"." + json.dumps({"size": size}).encode())
        except (Exception, SystemExit) as error:
            control.send_bytes(b"!" + json.dumps(fault(error)).encode())
    if worker is not None:
        worker.close()
    TRACE.stop()


def _answer_in(memory: _Mapped, size: int) -> np.ndarray:
    return memory.first(mmap.PAGESIZE + size)[mmap.PAGESIZE :]


def show_steps(counters: np.ndarray) -> None:
    """For ever: how far this process has come."""
    pause = threading.Event()
    while not pause.wait(PACE):
        counters[STEPS] = PULSE.vector_steps


def run(control_fd: int, lifeline: int, weights_fd: int, *memory_fds: int) -> None:
    """Until the learner says so, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(lifeline)
    memories = [_Mapped(fd) for fd in memory_fds]
    counters = memories[0].first(mmap.PAGESIZE)[: COUNTERS * 8].view(np.int64)
    threading.Thread(target=show_steps, args=(counters,), name="steps", daemon=True).start()
    with suppress(BrokenPipeError):  # the learner is gone: there is nothing to answer to
        serve(Connection(control_fd), memories, _Mapped(weights_fd))
