"""Runs in child processes that are killed -9 at random moments and resumed until they are done.

A moment is drawn from the clock of an uninterrupted twin, and is known by the train step it falls into and the time
since that step: on a busy machine a kill comes as far into the run as on a quiet one. A kill counts only when it hit a
living run that had trained since its last start; one that came too late is not counted, and another run is killed.
"""

from __future__ import annotations

import json
import os
import random
import struct
import time
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from support.checkpoint_scenario import leftovers
from support.processes import end, fork, in_child
from support.tiny_runs import assert_same_result, only_run, open_run, run_to_the_end

RUNS_PER_KILL = 5
"""So many runs may end before the kill that was meant for them."""

FIELDS = struct.Struct("qqd")

KILLED = pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("kill", "torn"), id="in turn"),
        pytest.param(("kill",), id="kill", marks=pytest.mark.slow),
        pytest.param(("torn",), id="torn", marks=pytest.mark.slow),
    ],
)
"""How processes die at the points of an enumeration: before a change of the disk, or half-way through a write. The
quick suite visits each point in one of the two ways, the slow one in both."""

EVERY = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
"""How far apart the points of an enumeration are: the quick suite visits every fifth change of the disk, from the first
on. An odd number, so that both ways to die come in turn."""


class Step(NamedTuple):
    """Where a run stands after a train step, and when it got there."""

    env_steps: int
    gradient_steps: int
    at: float

    @property
    def counts(self) -> tuple[int, int]:
        return self.env_steps, self.gradient_steps


class Kill(NamedTuple):
    """A kill that counts: the last step of the run that was reported before it, and the one its process began with."""

    began: Step
    reached: Step


@dataclass(frozen=True)
class Twin:
    """The same run, uninterrupted: its folder, the step it began with, all others, and when it ended."""

    folder: RunFolder
    steps: list[Step]
    ended: float

    def has_trained(self, began: Step, reached: Step) -> bool:
        """By gradient steps; an algorithm that takes none trains by stepping its environments."""
        if self.steps[-1].gradient_steps:
            return reached.gradient_steps > began.gradient_steps
        return reached.env_steps > began.env_steps

    def moment(self, began: Step, chance: random.Random) -> tuple[Step, float] | None:
        """Anywhere after the first training since `began`: the step it falls into, and seconds since that step. None
        where nothing is left to train."""
        first = next((step for step in self.steps if self.has_trained(began, step)), None)
        if first is None:
            return None
        at = chance.uniform(first.at, self.ended)
        step = self.steps[bisect_right([step.at for step in self.steps], at) - 1]
        return step, at - step.at


def has_workers(cfg: ExperimentConfig) -> bool:
    return cfg.env.vectorization == "async"


def train_reporting(cfg: ExperimentConfig, runs_dir: Path, report: int) -> None:
    """Train to the end, and write to the pipe where the run began and where it stands after each train step."""

    def write(env_steps: int, gradient_steps: int) -> None:
        os.write(report, FIELDS.pack(env_steps, gradient_steps, time.monotonic()))

    with open_run(cfg, runs_dir) as session:
        write(session.trainer.source.env_steps, session.trainer.gradient_steps)
        for tick in session:
            write(tick.env_steps, tick.gradient_steps)


def uninterrupted(cfg: ExperimentConfig, runs_dir: Path) -> Twin:
    """Train the twin in a child as well: nothing that it leaves in memory reaches those that are killed."""
    pid, pipe = _start(cfg, runs_dir)
    with os.fdopen(pipe, "rb") as reports:
        steps = [Step(*FIELDS.unpack(record)) for record in iter(lambda: reports.read(FIELDS.size), b"")]
    ended = time.monotonic()
    assert os.waitpid(pid, 0)[1] == 0
    return Twin(only_run(runs_dir), steps, ended)


def kill_and_compare(cfg: ExperimentConfig, twin: Twin, place: Path, kills: int, seed: int) -> list[Kill]:
    """Kill so many times; let each run that was killed finish, and compare it with its twin. Returns what counted."""
    chance, counted, runs = random.Random(seed), [], 0
    while len(counted) < kills:
        assert runs < RUNS_PER_KILL * kills, f"{len(counted)} of {kills} kills hit a run in training"
        runs_dir, runs = place / f"run-{runs}", runs + 1
        while len(counted) < kills and (kill := _kill(cfg, twin, runs_dir, chance)):
            counted.append(kill)
        assert in_child(lambda runs_dir=runs_dir: run_to_the_end(cfg, runs_dir), has_workers(cfg)) == 0
        assert_same_result(only_run(runs_dir), twin.folder)
        assert leftovers(only_run(runs_dir).path) == []
    return counted


def _kill(cfg: ExperimentConfig, twin: Twin, runs_dir: Path, chance: random.Random) -> Kill | None:
    """Start or resume the run and kill it at a random moment; None where it was over by then."""
    pid, pipe = _start(cfg, runs_dir)
    with os.fdopen(pipe, "rb") as reports:
        began = reached = Step(*FIELDS.unpack(reports.read(FIELDS.size)))
        assert began.counts in {step.counts for step in twin.steps}, f"the twin was never at {began}"
        if (moment := twin.moment(began, chance)) is None:
            assert os.waitpid(pid, 0)[1] == 0
            return None
        wanted, seconds = moment
        while reached.counts != wanted.counts and (record := reports.read(FIELDS.size)):
            reached = Step(*FIELDS.unpack(record))
        time.sleep(seconds)
        status = end(pid)
    state = json.loads((only_run(runs_dir).path / "status.json").read_text())["state"]
    is_hit = status == 9 and state == RunState.RUNNING and twin.has_trained(began, reached)
    return Kill(began, reached) if is_hit else None


def _start(cfg: ExperimentConfig, runs_dir: Path) -> tuple[int, int]:
    """The process that trains, and the end of the pipe to read its reports from."""
    reading, writing = os.pipe()
    pid = fork(lambda: train_reporting(cfg, runs_dir, writing), has_workers(cfg))
    os.close(writing)
    return pid, reading
