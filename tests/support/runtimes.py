"""Runtimes that stand where workers, ranks and many agents will: small, in one process, and strict."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import (
    Acted,
    Agent,
    DataSource,
    Explore,
    Group,
    Place,
    ReplayPlan,
    State,
    Step,
    Tally,
    VecEnv,
)
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Space, Spaces
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.stream import StreamSource
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.training.loop import Position, train
from rlstudio.models.policies.distributions import log_prob
from rlstudio.ops.group import ALONE
from support.deadlines import PATIENCE
from support.experiments import tiny

STAND_IN_ALGOS = ("ppo", "a2c", "dqn", "sac", "mbmpc")


def trainer_over(runtime: Any, algo: str, seed: int = 3, **train: Any) -> Any:
    """The tiny trainer of an algorithm, from its own file, over any runtime."""
    cfg = tiny(algo, train=train, env={"num_envs": runtime.num_envs})
    return ALGOS.load(algo)(cfg.train, runtime, cfg.policy.network, Rng(seed))


def world(algo: str, num_envs: int = 2, seed: int = 3) -> VecEnv:
    return make_vec_env(EnvConfig(id="Pendulum-v1" if algo == "sac" else "CartPole-v1", num_envs=num_envs, seed=seed))


def weights(trainer: Any) -> Tensor:
    return torch.cat([optimizer.flat.data for optimizer in trainer.optimizers])


def run_through(trainer: Any, epochs: int = 3) -> list[dict[str, float]]:
    """The loop over the trainer; the metrics of each epoch."""
    cfg = trainer.cfg.model_copy(update={"epochs": epochs})
    return [tick.report.metrics for tick in train(trainer, cfg, Position()) if tick.report is not None]


# -- workers: two slices of the environments, each acting with weights that are a few rollouts old -------------------


class Slices:
    """Collects like two workers: each has a part of the environments and a copy of the agent that is refreshed only
    every third time. As fragments, one slice is a round ahead of the other."""

    def __init__(
        self, envs: list[VecEnv], agent: Agent, rng: Rng, explore: Explore | None, group: Group = ALONE
    ) -> None:
        self.agent, self.total, self.rounds, self.turns = agent, sum(env.num_envs for env in envs), 0, 0
        self.run_envs = self.total * group.size
        firsts = np.cumsum([0, *(env.num_envs for env in envs)])
        self.slices = [
            Collector(
                env,
                copy.deepcopy(agent),
                rng.fork(f"slice-{first}"),
                copy.deepcopy(explore),
                first_env=group.rank * self.total + int(first),
                run_envs=self.run_envs,
                column=int(first),
            )
            for env, first in zip(envs, firsts, strict=False)
        ]

    @property
    def env_steps(self) -> int:
        return sum(part.vector_steps * part.env.num_envs for part in self.slices) * self.run_envs // self.total

    def collect(self, steps: int) -> Batch:
        self._refresh()
        return _beside([self._with_behaviour(part, part.collect(steps)) for part in self.slices])

    def fragments(self, steps: int) -> Iterable[tuple[int, Batch]]:
        self._refresh()
        part = self.slices[self.turns % 2]
        self.turns += 1
        yield part.column, part.collect(2 * steps)

    def _refresh(self) -> None:
        if self.rounds % 3 == 0:
            for part in self.slices:
                part.agent = copy.deepcopy(self.agent)
        self.rounds += 1

    @torch.no_grad()
    def _with_behaviour(self, part: Collector, rollout: Batch) -> Batch:
        model: Any = part.agent.model  # type: ignore[attr-defined]
        policy, _ = model(**rollout.flatten().only(model.reads))
        return rollout.with_(behaviour_log_probs=log_prob(policy, rollout.flatten().actions).view(rollout.shape))

    def progress(self, fraction: float) -> None:
        for part in self.slices:
            part.progress(fraction)

    def take(self) -> Tally:
        tallies = [part.take() for part in self.slices]
        returns, lengths = ([x for tally in tallies for x in tally[i]] for i in (0, 1))
        infos = {key: [x for tally in tallies for x in tally.infos[key]] for key in tallies[0].infos}
        return Tally(returns, lengths, sum(tally.bad_rows for tally in tallies), tallies[0].bad, infos)

    def state_dict(self) -> State:
        return {"slices": [part.state_dict() for part in self.slices]}

    def load_state_dict(self, state: State) -> None:
        for part, one in zip(self.slices, state["slices"], strict=True):
            part.load_state_dict(one)


class SlicedRuntime(LocalRuntime):
    """Two vectors of environments as one."""

    def __init__(self, envs: list[VecEnv], group: Group = ALONE) -> None:
        super().__init__(envs[0], replay_capacity=256, group=group)
        self.envs = envs

    @property
    def num_envs(self) -> int:
        return sum(env.num_envs for env in self.envs)

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> DataSource:
        return StreamSource(Slices(self.envs, agent, rng, explore, self.group), steps)

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> DataSource:
        replay = ReplayBuffer(self.spaces, self.replay_capacity, self.num_envs)
        slices = Slices(self.envs, agent, rng, explore, self.group)
        return ReplaySource(slices, replay, rng.fork("sample"), plan)


def _beside(rollouts: list[Batch]) -> Batch:
    columns = {name: torch.cat([getattr(rollout, name) for rollout in rollouts], 1) for name in rollouts[0].names}
    return Batch(lead=2, **columns)


# -- ranks: threads that learn one policy, and a group that notices when they do not call the same --------------------


class Meeting:
    """Where the ranks of a group meet for each call, with what they brought."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.brought: list[tuple[str, Tensor] | None] = [None] * size
        self.calls: list[str] = []

    def exchange(self, rank: int, call: str, value: Tensor) -> list[Tensor]:
        self.brought[rank] = (call, value.detach().clone())
        self.barrier.wait()
        everyone = [one for one in self.brought if one is not None]
        calls = {(name, tuple(tensor.shape)) for name, tensor in everyone}
        if rank == 0:
            self.calls.append(call)
        self.barrier.wait()
        if len(calls) > 1:
            raise AssertionError(f"the ranks called different things: {sorted(map(str, calls))}")
        return [tensor for _, tensor in everyone]


class ThreadGroup:
    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.meeting = rank, meeting.size, meeting

    def mean(self, flat: Tensor) -> None:
        flat.copy_(torch.stack(self.meeting.exchange(self.rank, "mean", flat)).mean(0))

    def sum(self, numbers: Tensor) -> Tensor:
        return torch.stack(self.meeting.exchange(self.rank, "sum", numbers)).sum(0)

    def largest(self, numbers: Tensor) -> Tensor:
        return torch.stack(self.meeting.exchange(self.rank, "largest", numbers)).amax(0)

    def any(self, flag: Tensor) -> Tensor:
        return torch.stack(self.meeting.exchange(self.rank, "any", flag)).any(0)

    def own(self, rng: Rng) -> Rng:
        return rng if self.rank == 0 else rng.fork(f"rank-{self.rank}")


def in_ranks(size: int, work: Any) -> tuple[list[Any], Meeting]:
    """work(group) in a thread per rank; the first error of any of them is raised here."""
    meeting, results, errors = Meeting(size), [None] * size, []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadGroup(rank, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return results, meeting


# -- many agents: one dies in the midst of a game, two take turns ------------------------------------------------------


class Game:
    """A vector of games of three agents each, an agent per column: the first of a game acts at every step and dies
    after four, the others take turns; a game is over after ten steps. What an action earns is paid while its agent
    waits. In the columns of agents that are gone stands `garbage`."""

    exact = None
    agents = 3
    vectorization = "toy"
    restart_reasons = None
    restarted: tuple[int, ...] = ()

    def __init__(self, games: int, actions: Space, garbage: float) -> None:
        self.spaces = Spaces(Box((3,), "float32", (-1e9,), (1e9,)), actions)
        self.num_envs, self.garbage = 3 * games, garbage
        self.role = np.arange(self.num_envs) % 3
        self.steps, self.paid = 0, np.zeros(self.num_envs, np.float32)

    def reset(self) -> np.ndarray:
        self.steps, self.paid = 0, np.zeros(self.num_envs, np.float32)
        return self._observe(0)

    def _acting(self, at: int) -> np.ndarray:
        return np.where(self.role == 0, at < 4, at % 2 == self.role - 1)

    def _observe(self, at: int) -> np.ndarray:
        shown = np.stack([np.full(self.num_envs, at / 10), self.role / 2, self.paid], -1).astype(np.float32)
        shown[(self.role == 0) & (at > 4)] = self.garbage
        return shown

    def step(self, actions: np.ndarray) -> Step:
        at = self.steps % 10
        active = self._acting(at)
        chosen = np.asarray(actions, np.float32).reshape(self.num_envs, -1)[:, 0]
        waiting = (self.role > 0) & ~active
        rewards = np.where(waiting, self.paid, 0.0).astype(np.float32)  # for what it did at its last turn
        rewards[self.role == 0] = np.where(active[self.role == 0], chosen[self.role == 0], self.garbage)
        self.paid = np.where(active, chosen, 0.0).astype(np.float32)
        self.steps += 1
        over = at == 9
        terminated = (self.role > 0) & over | (self.role == 0) & (at == 3)
        successors = self._observe(at + 1)
        if over:
            self.paid[:] = 0.0
        observations = self._observe(0) if over else successors
        return Step(observations, successors, rewards, terminated, np.zeros(self.num_envs, bool), {}, active)

    def position(self) -> State:
        return {"steps": self.steps, "paid": self.paid.copy()}

    def seek(self, position: State) -> np.ndarray:
        self.steps, self.paid = int(position["steps"]), np.asarray(position["paid"]).copy()
        return self._observe(self.steps % 10)

    def close(self) -> None:
        """Nothing is open."""


def actions_of(algo: str) -> Space:
    return Box((1,), "float32", (-1.0,), (1.0,)) if algo == "sac" else Discrete(3)


class Idle:
    """An agent that always does the same, for collecting without a Model."""

    acting, remembers = "none", False

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations: np.ndarray, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
        return Acted(np.ones(len(observations), np.int64), {}, carry)


class Marking:
    """An exploration that does 0 until so many steps of the run were taken and leaves the agent alone afterwards; it
    notes where it was asked."""

    remembers = False

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.places: list[Place] = []

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        return np.empty((steps, num_envs, 0), np.float32)

    def __call__(self, actions: np.ndarray, noise: np.ndarray, observations: Any, place: Place) -> np.ndarray:
        self.places.append(place)
        return np.zeros_like(actions) if place.env_steps <= self.steps else actions

    def progress(self, fraction: float) -> None:
        """It goes by steps."""

    def forget(self, envs: np.ndarray) -> None:
        """Nothing travels."""

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None:
        """Nothing to remember."""
