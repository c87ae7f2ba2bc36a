"""Gymnasium envs in worker processes (`vectorization: async`): for envs that step in 0.3 ms or more, or may crash.

Rows travel through shared memory, requests through a pipe per worker. Actions, episodes and digests are kept here, so a
worker that dies, hangs or whose env raises is replaced by a fresh one that replays its envs to the very same place, and
the step is taken again: the trajectory is the one that `sync` gives, bit for bit. A worker that fails `max_restarts`
times in a row at the same place ends the run with an EnvFault that names the env.
"""

from __future__ import annotations

import json
import mmap
import os
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from rlstudio.core.contracts import Array, State, Step
from rlstudio.core.errors import EnvFault
from rlstudio.envs.gym.blocks import Blocks, EnvRecipe, spaces_from_json
from rlstudio.envs.gym.env_block import BrokenContract, describe_fault
from rlstudio.envs.gym.plain_blocks import PlainBlocks
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.replay.replay_log import Journal
from rlstudio.envs.gym.suspects import not_finite
from rlstudio.envs.gym.worker import SharedRows
from rlstudio.envs.gym.worker_handle import WorkerDown, WorkerHandle, end_all, pause_before
from rlstudio.envs.params.draw import Draw, draw_to_json
from rlstudio.envs.params.episodes import EpisodeParams, position_of, required
from rlstudio.envs.seeds import EpisodeNoise, episode_name

CLOSE_GRACE = 2.0  # seconds all workers together get to close their envs

Request = Callable[[int], bytes]


class ProcessVecEnv:
    vectorization = "async"
    agents = 1

    def __init__(
        self,
        recipe: EnvRecipe,
        num_envs: int,
        seed: int,
        *,
        first_env: int = 0,
        workers: int | None = None,
        step_timeout: float = 60.0,
        start_timeout: float = 60.0,
        max_restarts: int = 3,
    ) -> None:
        """`step_timeout` is for one call of one env (construction, reset or step); `start_timeout` for a process. In
        the run these envs have the numbers from `first_env` on."""
        self.num_envs = num_envs
        self.exact: str | None = None
        self.restart_reasons: list[str] = []
        self._recipe, self._seed, self._worlds, self._first_env = recipe, seed, num_envs, first_env
        self._step_timeout, self._start_timeout, self._max_restarts = step_timeout, start_timeout, max_restarts
        count = min(num_envs, workers or len(os.sched_getaffinity(0)))
        bounds = np.linspace(0, num_envs, count + 1).astype(int).tolist()
        self._spans = [range(low, high) for low, high in pairwise(bounds)]
        self._blocks = self._blocks_of(recipe)
        self._description = self._blocks.to_json()
        self._memory_fd = fd = os.memfd_create("rlstudio-envs")
        self._handles: list[WorkerHandle] = []
        self._finalizer = weakref.finalize(self, end_all, self._handles, CLOSE_GRACE, partial(os.close, fd))
        try:
            self._open(count)
        except BaseException:
            self.close()
            raise

    def _open(self, count: int) -> None:
        self._handles.extend(WorkerHandle(self._memory_fd) for _ in range(count))
        for handle in self._handles:
            self._greet(handle)
        probed = self._probe()
        self.spaces = spaces_from_json(probed["spaces"])
        self._adopt_facts(probed["facts"])
        size = SharedRows(self._blocks, self.spaces, self._worlds, count).size
        os.ftruncate(self._memory_fd, size)
        shared = SharedRows(self._blocks, self.spaces, self._worlds, count, mmap.mmap(self._memory_fd, size))
        self._rows, self._progress = shared.rows, shared.progress
        layout = {"num_envs": self._worlds, "workers": count, "seed": self._seed, "first_env": self._first_env}
        self._job = probed | {"recipe": self._description} | layout
        draw = self._recipe.draw
        self.episode_params = None if draw is None else EpisodeParams(draw, self._seed, self.num_envs, self._first_env)
        self._first_draw = draw  # of the steps that are played again
        self._journal = Journal(self._rows)
        self._believed = [False] * count  # not finite, and a fresh worker said the same
        self._failures = [0] * count
        self._lost = [False] * count  # replaced, and its envs are not replayed yet
        self._quiet = self._rows.quiet_step()
        for worker, handle in enumerate(self._handles):
            handle.send(self._map_request(worker))
        for handle in self._handles:
            handle.reply(self._start_timeout)

    def _blocks_of(self, recipe: EnvRecipe) -> Blocks:
        assert isinstance(recipe, Recipe)
        return PlainBlocks(recipe)

    def _adopt_facts(self, facts: State) -> None:
        """What else the probe found out about the envs."""

    def _greet(self, handle: WorkerHandle) -> None:
        try:
            handle.reply(self._start_timeout)
        except WorkerDown as down:
            raise EnvFault(f"env {self._recipe.cfg.id}: a worker {down} while it started") from None

    def _probe(self) -> State:
        """Spaces and habits of the env, found out where a crash does no harm; if trying it out fails, spaces alone."""
        reason = ""
        for habits in (True, False):
            self._handles[0].send(b"Q" + json.dumps({"recipe": self._description, "habits": habits}).encode())
            try:
                return self._handles[0].reply(self._step_timeout)
            except WorkerDown as down:
                reason = str(down)
                self._replace(0)
        raise EnvFault(f"env {self._recipe.cfg.id} cannot be created: its worker {reason}")

    # -- the vector contract ----------------------------------------------------------------------------------------

    def reset(self) -> Array:
        self._ask(lambda worker: b"R", resume=False)
        self._journal.restart()
        if self.episode_params is not None:
            self.episode_params.begin(np.arange(self.num_envs), self._journal.episodes)
            self._first_draw = self.episode_params.draw
        return self._rows.in_columns

    def step(self, actions: np.ndarray) -> Step:
        rows = self._rows
        assert isinstance(rows.actions, np.ndarray)
        by_env = actions.reshape(rows.actions.shape)
        np.copyto(rows.actions, by_env)
        self._ask(lambda worker: b"S")
        step, ended = rows.outcome(self._quiet)
        suspects = self._not_finite(step) if self._max_restarts else []
        if doubted := [worker for worker in suspects if not self._believed[worker]]:
            for worker in doubted:
                self._ask_anew(worker)
            step, ended = rows.outcome(self._quiet)
            agreeing = self._not_finite(step)
            for worker in doubted:
                self._believed[worker] = worker in agreeing
        self._journal.record(by_env, ended)
        if ended is not None and self.episode_params is not None:
            self.episode_params.follow(ended, self._journal.episodes)
        return step

    def _not_finite(self, step: Step) -> list[int]:
        return not_finite(step, self._spans, self.agents)

    def _ask_anew(self, worker: int) -> None:
        """A fresh worker takes the step again. If it says the same it is the env, and left to the row guard."""
        self._count_failure(worker, self._describe(worker, "its worker gave numbers that are not finite"))
        self._replace(worker)
        self._lost[worker] = True
        self._answer(worker, lambda _: b"S", resume=True)

    def set_draw(self, draw: Draw) -> None:
        required(self.episode_params, self._recipe.cfg.id).set_draw(draw)
        self._journal.stop_noting()
        self._ask(self._draw_request)

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return episode_name(self._seed, self._first_env + env, int(self._journal.episodes[env]) - ago)

    @property
    def restarted(self) -> Sequence[int]:
        return self._journal.restarted

    def position(self) -> State:
        """The first one after some steps also replays them: `exact` then says whether the env repeats itself."""
        steps = self._journal.take_first_steps()
        if steps is not None and self._finalizer.alive:
            # Worker 0 has env 0. One that dies of the replay is replaced, and not asked again.
            header = {"checksums": steps.checksums, "draw": draw_to_json(self._first_draw)}
            requests = {0: json.dumps(header).encode() + b"\n" + np.array(steps.actions).tobytes()}
            replies = self._ask(lambda worker: b"F" + requests.pop(worker, b""))
            self.exact = replies[0]["difference"] or self.exact
        return {**self._journal.position(), **position_of(self.episode_params)}

    def seek(self, position: State) -> Array:
        self._journal.adopt(position)
        if self.episode_params is not None:
            self.episode_params.seek(position.get("params"), self._journal.episodes)
            self._ask(self._draw_request, resume=False)
        self.exact = None
        for worker, reply in enumerate(self._ask(self._place_request, resume=False)):
            self._settle(worker, reply)
        return self._rows.in_columns

    def close(self) -> None:
        """Within CLOSE_GRACE and the time it takes to kill; again: nothing."""
        self._finalizer()

    # -- requests and recovery --------------------------------------------------------------------------------------

    def _ask(self, request: Request, *, resume: bool = True) -> list[State]:
        """The same question to all workers at once; those that fail are replaced and asked again.

        With `resume` a replaced worker first puts its envs where they were; without, the question itself places them.
        """
        if not self._finalizer.alive:
            raise EnvFault(f"env {self._recipe.cfg.id}: the vector of envs is closed")
        try:
            for worker, handle in enumerate(self._handles):
                handle.send(request(worker))
            return [self._answer(worker, request, resume) for worker in range(len(self._handles))]
        except BaseException:
            self.close()  # unread answers would be taken for those of the next question
            raise

    def _answer(self, worker: int, request: Request, resume: bool) -> State:
        while True:
            try:
                if self._lost[worker]:
                    self._prepare(worker, resume)
                    self._handles[worker].send(request(worker))
                reply = self._reply(worker)
            except BrokenContract:
                raise
            except EnvFault as fault:
                self._count_failure(worker, str(fault), fault)
            except WorkerDown as down:
                self._count_failure(worker, self._describe(worker, f"its worker {down}"))
            else:
                self._failures[worker] = 0
                self._lost[worker] = False
                return reply
            self._replace(worker)
            self._lost[worker] = True

    def _reply(self, worker: int) -> State:
        return self._handles[worker].reply(self._step_timeout, lambda: int(self._progress[worker, 1]))

    def _prepare(self, worker: int, resume: bool) -> None:
        """A fresh worker: lay out its memory and put its envs where they were."""
        handle = self._handles[worker]
        handle.send(self._map_request(worker))
        handle.reply(self._start_timeout)
        if resume:
            handle.send(self._place_request(worker))
            self._settle(worker, self._reply(worker))

    def _map_request(self, worker: int) -> bytes:
        span = self._spans[worker]
        job = self._job | {"worker": worker, "first": span.start, "count": len(span)}
        return b"M" + json.dumps(job | {"draw": self._draw_as_json()}).encode()

    def _draw_request(self, worker: int) -> bytes:
        return b"D" + json.dumps(self._draw_as_json()).encode()

    def _draw_as_json(self) -> State | None:
        return None if self.episode_params is None else draw_to_json(self.episode_params.draw)

    def _place_request(self, worker: int) -> bytes:
        span = self._spans[worker]
        histories, params = [self._journal.actions_of(env) for env in span], self.episode_params
        header = {
            "params": [None if params is None else params.of(env) for env in span],
            "episodes": [int(self._journal.episodes[env]) for env in span],
            "lengths": [len(history) for history in histories],
        }
        return b"P" + json.dumps(header).encode() + b"\n" + np.concatenate(histories).tobytes()

    def _settle(self, worker: int, reply: State) -> None:
        for env, digest in zip(self._spans[worker], reply["digests"], strict=True):
            self.exact = self._journal.settle(env, digest) or self.exact

    def _count_failure(self, worker: int, reason: str, fault: EnvFault | None = None) -> None:
        self._failures[worker] += 1
        if self._failures[worker] > self._max_restarts:
            raise EnvFault(f"{reason}; gave up after {self._max_restarts} restarts") from fault
        self.restart_reasons.append(reason)
        time.sleep(pause_before(self._failures[worker]))

    def _replace(self, worker: int) -> None:
        self._handles[worker].end()
        self._handles[worker] = WorkerHandle(self._memory_fd)
        self._greet(self._handles[worker])

    def _describe(self, worker: int, what: str) -> str:
        env = int(self._progress[worker, 0])
        episode = int(self._journal.episodes[env])
        seed = EpisodeNoise(self._seed, self._worlds, 1).seed(self._first_env + env, episode)
        assert isinstance(self._rows.actions, np.ndarray)
        elapsed, action = self._journal.elapsed(env), self._rows.actions[env]
        return describe_fault(self._recipe.cfg.id, self._first_env + env, episode, elapsed, seed, action, what)
