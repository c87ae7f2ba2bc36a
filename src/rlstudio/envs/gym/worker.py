"""A worker process of ProcessVecEnv: `python -m rlstudio.envs.gym.worker CONTROL LIFELINE MEMORY`, three inherited fds.

It imports no torch and nothing of its parent's main module. It answers one request at a time on CONTROL and shares rows
of arrays through MEMORY. It ignores Ctrl-C, which is the parent's to handle, and never outlives the parent: the kernel
signals the hang-up of LIFELINE even while an env holds the interpreter.

Requests: Q probe, M map the memory, R reset, S step, D set what parameters are drawn from, P place, F play the first
steps again, C close. Replies: "." and JSON, or "!" and a fault; one "." comes unasked when the process is up, and "+"
is a sign of life during a probe.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import RLStudioError, traceback_of
from rlstudio.core.host.process import end_with
from rlstudio.core.host.process_exit import leave
from rlstudio.core.host.trace import TRACE
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.core.rng import seed_all
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.blocks import Block, Blocks, blocks_from_json, spaces_from_json
from rlstudio.envs.gym.recipe import one_line
from rlstudio.envs.gym.replay.first_steps import first_difference
from rlstudio.envs.gym.replay.replay_log import FirstSteps
from rlstudio.envs.gym.rows import Carver
from rlstudio.envs.params.draw import draw_from_json
from rlstudio.envs.seeds import worker_seed

SPANS = {b"R": "reset", b"S": "step", b"P": "place"}
"""What a trace calls requests; the others come once."""


class SharedRows:
    """The layout of the shared memory: all rows, and per worker the env it runs and how far it got."""

    def __init__(
        self, blocks: Blocks, spaces: Spaces, num_envs: int, workers: int, memory: mmap.mmap | None = None
    ) -> None:
        carver = Carver(memory)
        self.rows = blocks.rows(spaces, num_envs, carver)
        self.progress = carver((workers, 2), np.int64)  # env in work, calls begun
        self.size = carver.size


class EnvWorker:
    def __init__(self, control: Connection, memory_fd: int) -> None:
        self._control = control
        self._memory_fd = memory_fd
        self._block: Block | None = None
        self._actions = np.empty(0)

    def probe(self, payload: bytes) -> State:
        """The env's spaces, and whether it must be rebuilt for every episode (its habits, if asked for)."""
        job = json.loads(payload)
        return blocks_from_json(job["recipe"]).probe(job["habits"], lambda: self._control.send_bytes(b"+"))

    def map(self, payload: bytes) -> State:
        job = json.loads(payload)
        blocks, spaces = blocks_from_json(job["recipe"] | job["facts"]), spaces_from_json(job["spaces"])
        size = SharedRows(blocks, spaces, job["num_envs"], job["workers"]).size
        memory = mmap.mmap(self._memory_fd, size)
        # An env may fork, but not so that its child comes back to us and writes rows too: it has none and dies.
        memory.madvise(mmap.MADV_DONTFORK)
        shared = SharedRows(blocks, spaces, job["num_envs"], job["workers"], memory)
        first, progress = job["first"], shared.progress[job["worker"]]
        number = job["first_env"] + first  # of its first env in the run

        def watch(index: int) -> None:
            progress[0] = first + index
            progress[1] += 1

        TRACE.join(f"environments {number} to {number + job['count'] - 1}")
        rows = shared.rows.part(first, job["count"])
        assert isinstance(rows.actions, np.ndarray)
        self._actions = rows.actions
        seed_all(worker_seed(job["seed"], number))  # before any environment is made
        draw = draw_from_json(job["draw"])
        self._block = blocks.block(spaces, rows, job["seed"], number, job["rebuild"], watch, draw)
        self._first_difference = partial(
            first_difference,
            blocks=blocks,
            spaces=spaces,
            seed=job["seed"],
            rebuild=job["rebuild"],
            watch=watch,
            first=job["first_env"],
        )
        return {}

    def reset(self, _: bytes) -> State:
        self.block.reset()
        return {}

    def step(self, _: bytes) -> State:
        self.block.step(self._actions)
        return {}

    def set_draw(self, payload: bytes) -> State:
        self.block.draw = draw_from_json(json.loads(payload))
        return {}

    def place(self, payload: bytes) -> State:
        """Payload: a line of JSON (episodes, lengths, their parameters), then the actions of all envs as they lie in
        memory."""
        header, _, body = payload.partition(b"\n")
        job = json.loads(header)
        actions = np.frombuffer(body, self._actions.dtype).reshape(-1, *self._actions.shape[1:])
        histories = np.split(actions, np.cumsum(job["lengths"])[:-1])
        placed = enumerate(zip(job["episodes"], histories, job["params"], strict=True))
        return {"digests": [self.block.place(i, *where) for i, where in placed]}

    def play_first_steps(self, payload: bytes) -> State:
        """Payload: nothing, or a line of JSON (checksums, draw), then the actions of env 0 as they lie in memory."""
        if not payload:
            return {"difference": None}
        header, _, body = payload.partition(b"\n")
        job = json.loads(header)
        checksums = job["checksums"]
        actions = np.frombuffer(body, self._actions.dtype).reshape(len(checksums) - 1, *self._actions.shape[1:])
        steps, draw = FirstSteps(checksums, list(actions)), draw_from_json(job["draw"])
        return {"difference": self._first_difference(steps, draw=draw)}

    @property
    def block(self) -> Block:
        assert self._block is not None, "map comes first"
        return self._block

    def close(self) -> None:
        if self._block is not None:
            self._block.close()


def serve(control: Connection, worker: EnvWorker) -> None:
    """Answer requests until the parent closes the pipe or says so."""
    answer = {
        b"Q": worker.probe,
        b"M": worker.map,
        b"R": worker.reset,
        b"S": worker.step,
        b"D": worker.set_draw,
        b"P": worker.place,
        b"F": worker.play_first_steps,
    }
    own = os.getpid()
    control.send_bytes(b".{}")
    while True:
        try:
            request = control.recv_bytes()
        except (EOFError, OSError):
            return
        if request == b"C":
            return
        try:
            started = time.perf_counter()
            reply = b"." + json.dumps(answer[request[:1]](request[1:])).encode()
            TRACE.span(SPANS.get(request[:1], "other"), started)
        except RLStudioError as error:
            reply = b"!" + json.dumps([type(error).__name__, str(error), traceback_of(error)]).encode()
        except Exception as error:
            reply = b"!" + json.dumps(["EnvFault", one_line(error), traceback_of(error)]).encode()
        if os.getpid() != own:
            leave(1)  # a child that an env forked and that came back: there must be one answer
        control.send_bytes(reply)


def main() -> None:
    control_fd, lifeline, memory_fd = (int(argument) for argument in sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(lifeline)
    control = Connection(control_fd)
    worker = EnvWorker(control, memory_fd)
    OWN_METRICS.refusal = (
        "does not reach the run from a worker process; put the number into `info` and its key into env.infos, or train"
        " with env.vectorization=sync"
    )
    with suppress(BrokenPipeError):  # the parent is gone: there is nothing to answer to
        serve(control, worker)
    worker.close()
    TRACE.stop()


if __name__ == "__main__":
    main()
