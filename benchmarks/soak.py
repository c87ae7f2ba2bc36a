"""Are workers that die replaced without a trace? `python -m benchmarks.scale --soak [--kills 50]`.

PPO, synchronous and asynchronous, and asynchronous SAC train with two workers that are killed (SIGKILL),
stopped (SIGSTOP), exit by themselves, die while weights are published, or die all at once, in turns. After each kill
the run is watched until fresh workers gave a fragment. PPO must end with the bits of a run that nobody disturbed, so no
fragment came twice and none is missing; SAC, where the clock decides which fragments come first, must have as many rows
of each slice as the slice has taken steps. Then PPO learns CartPole while each step of the environments ends its
process with a chance of 1e-4, until an evaluation reaches 475. Exit status 1 where a trace is left, a worker was back
later than after 5 s, or 475 was not reached.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.crashing_env import SPARED
from benchmarks.page import table
from rlstudio import orchestrator
from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.snapshot import capture
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.training.build import Built, build
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.scale.workers.runtime import WorkersRuntime

MODULE = "benchmarks.crashing_env"
KINDS = ("SIGKILL", "SIGSTOP", "exit", "while weights are published", "all at once")
WORLDS = {"ppo": "CrashingCartPole", "sac": "CrashingPendulum"}
TRAIN: dict[str, dict[str, Any]] = {
    "ppo": {"rollout_steps": 16, "passes": 1, "batch_size": 64, "steps_per_epoch": 256},
    "sac": {"batch_size": 32, "learning_starts": 64, "train_every": 4, "steps_per_epoch": 256},
}
CRASH = 1e-4
GOAL = 475.0
BACK_SECONDS = 5.0


class Kill(NamedTuple):
    kind: str
    seconds: float  # until every slice that was hit gave a fragment again


class Soaked(NamedTuple):
    kills: list[Kill]
    restarts: int
    whole: bool  # the bits of a run that nobody disturbed; of SAC: every row of each slice once


def experiment(algo: str, mode: str, backend: str, ask: Path) -> ExperimentConfig:
    env = {"id": f"{MODULE}:{WORLDS[algo]}", "kwargs": {"ask": str(ask)}, "max_episode_steps": 100, "seed": 1}
    return experiment_from(
        {
            "env": {**env, "num_envs": 4, "vectorization": "sync"},
            "policy": {"algo": algo, "network": {"hidden_sizes": [32]}},
            "train": {**TRAIN[algo], "epochs": 1_000_000},
            "buffer": {"capacity": 10_000},
            "rollout": {"workers": 2, "backend": backend, "mode": mode, "max_restarts": 10},
        },
        imports=[MODULE],
    )


class Assailant:
    """Kills workers of a run, one kind after the other, and waits until fresh ones gave a fragment."""

    def __init__(self, built: Built, kills: int, ask: Path) -> None:
        assert isinstance(built.runtime, WorkersRuntime)
        self.kills: list[Kill] = []
        self._crew, self._ask, self._wanted = built.runtime.crew, ask, kills
        self._kind, self._since = "", 0.0
        self._waits_for_weights = False  # the next publication is when a worker dies
        self._before: list[tuple[object, int]] = []  # of each slice: its worker, and the steps that it had given
        self._publish = self._crew.backend.publish
        self._crew.backend.publish = self._published  # type: ignore[method-assign]

    @property
    def is_done(self) -> bool:
        return len(self.kills) == self._wanted and not self._kind

    def between_steps(self) -> None:
        if self._kind and len(self._back()) >= (2 if self._kind == "all at once" else 1):
            self.kills.append(Kill(self._kind, time.perf_counter() - self._since))
            self._kind = ""
        if not self._kind and len(self.kills) < self._wanted:
            self._strike(KINDS[len(self.kills) % len(KINDS)])

    def _back(self) -> list[int]:
        """Slices with a fresh worker that has given something."""
        now = self._standing()
        return [
            own for own, (host, steps) in enumerate(self._before) if now[own][0] is not host and now[own][1] > steps
        ]

    def _standing(self) -> list[tuple[object, int]]:
        steps = [0 if state is None else int(state["vector_steps"]) for state in self._crew.states]
        return list(zip(self._crew._hosts, steps, strict=True))

    def _strike(self, kind: str) -> None:
        self._kind, self._before, self._since = kind, self._standing(), time.perf_counter()
        self._waits_for_weights = kind == "while weights are published"
        if kind == "exit":
            self._ask.touch()
        elif not self._waits_for_weights:
            hit = range(2) if kind == "all at once" else [len(self.kills) % 2]
            self._kill(hit, signal.SIGSTOP if kind == "SIGSTOP" else signal.SIGKILL)

    def _published(self, version: int, weights: Any) -> None:
        if self._waits_for_weights:
            self._waits_for_weights, self._since = False, time.perf_counter()
            self._kill([len(self.kills) % 2], signal.SIGKILL)
        self._publish(version, weights)

    def _kill(self, slices: Sequence[int], number: int) -> None:
        for own in slices:
            os.kill(self._crew._hosts[own].pid, number)  # type: ignore[attr-defined]


def soak(algo: str, mode: str, kills: int, backend: str = "process") -> Soaked:
    with tempfile.TemporaryDirectory() as place:
        ask = Path(place) / "go"
        built = build(experiment(algo, mode, backend, ask))
        try:
            assailant = Assailant(built, kills, ask)
            position, steps, restarts = Position(), 0, 0
            for tick in train(built.trainer, built.trainer.cfg, position):
                steps += 1
                restarts += len((tick.report and tick.report.restarts) or [])
                assailant.between_steps()
                if assailant.is_done:
                    break
            restarts += len(built.trainer.source.take().restarts or [])
            if algo == "ppo":
                whole = _hash(built, position) == _undisturbed(experiment(algo, mode, "local", ask), steps)
            else:
                whole = _is_whole(built)
            return Soaked(assailant.kills, restarts, whole)
        finally:
            built.close()


def _undisturbed(cfg: ExperimentConfig, steps: int) -> str:
    built = build(cfg)
    try:
        position = Position()
        for _, _ in zip(range(steps), train(built.trainer, cfg.train, position), strict=False):
            pass
        built.trainer.source.take()
        return _hash(built, position)
    finally:
        built.close()


def _hash(built: Built, position: Position) -> str:
    return state_hash(capture(built.trainer, {"position": position}, seed=1, attempt=0, meta={}))


def _is_whole(built: Built) -> bool:
    state = built.trainer.source.state_dict()
    collector, counts = state["collector"], built.trainer.source.replay.counts  # type: ignore[attr-defined]
    taken = [int(own["vector_steps"]) for own in collector["slices"]]
    return bool(collector["steps"] == taken and counts.tolist() == [steps for steps in taken for _ in range(2)])


class Learned(NamedTuple):
    value: float
    env_steps: int
    crashes: int
    seconds: float


def learn_while_crashing(crash: float = CRASH) -> Learned:
    """PPO on CartPole until an evaluation during training reaches the goal."""
    document = {
        "env": {
            "id": f"{MODULE}:CrashingCartPole",
            "kwargs": {"crash": crash},
            "max_episode_steps": 500,
            "num_envs": 8,
            "vectorization": "sync",
            "seed": 1,
        },
        "policy": {"algo": "ppo"},
        "train": {"epochs": 200, "steps_per_epoch": 4096, "rollout_steps": 64},
        "rollout": {"workers": 2, "backend": "process", "max_restarts": 10},
        "eval": {"every_epochs": 2, "episodes": 10},
        "gates": {"stop_at": GOAL},
    }
    os.environ[SPARED] = str(os.getpid())
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        cfg = experiment_from(document, imports=[MODULE])
        with orchestrator.session(cfg, runs_dir=place) as session:
            for _ in session:
                pass
            crashes = sum(event["kind"] == "env_restarted" for event in session.folder.events())
            best = max(evaluation_values(session.folder.path))
            return Learned(best, session.status.env_steps, crashes, time.perf_counter() - started)


def evaluation_values(path: Path) -> list[float]:
    from rlstudio.experiment.metrics.reader import read_metrics

    return [record.value for record in read_metrics(path, keys={"eval/return_mean"})]


RUNS = (("ppo", "sync"), ("ppo", "async"), ("sac", "async"))


def report(kills: int, backends: Sequence[str]) -> None:
    """Tables of all kills, on each backend divided among the runs, and of learning while workers crash."""
    is_met = True
    print(table(["backend", "run", "kind", "kills", "back after, median", "longest"], []))
    for backend, number in product(backends, range(len(RUNS))):
        algo, mode = RUNS[number]
        soaked = soak(algo, mode, kills * (number + 1) // len(RUNS) - kills * number // len(RUNS), backend)
        run = f"| {backend} | {algo}, {mode}"
        for kind in KINDS:
            seconds = sorted(kill.seconds for kill in soaked.kills if kill.kind == kind)
            if seconds:
                middle, longest = f"{seconds[len(seconds) // 2]:.1f} s", f"{seconds[-1]:.1f} s"
                print(f"{run} | {kind} | {len(seconds)} | {middle} | {longest} |", flush=True)
        print(f"{run} | as if undisturbed: {'yes' if soaked.whole else 'NO'} | {len(soaked.kills)} | | |", flush=True)
        is_met = is_met and soaked.whole and max(kill.seconds for kill in soaked.kills) <= BACK_SECONDS
    learned = learn_while_crashing()
    print(
        f"\nPPO on CartPole with a chance of {CRASH:g} to crash at each step: {learned.value:.0f} after"
        f" {learned.env_steps:,} steps, {learned.crashes} crashes and {learned.seconds:.0f} s"
    )
    if not is_met or learned.value < GOAL:
        raise SystemExit(1)
