"""What a run will take of this machine: memory for its rows, room for its checkpoints, processor cores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rlstudio.core.contracts import Trainer
from rlstudio.core.errors import ConfigError
from rlstudio.core.host.ram import usable_ram
from rlstudio.core.spaces import Spaces
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.doctor.advice import Advice
from rlstudio.experiment.training.refusals import RowMemory, row_memory

MOST_OF_DISK = 0.9
REPLAY_COPIES = 1.25
"""Segments of a replay are shared by checkpoints; those that are just replaced are there twice for a moment."""


@dataclass(frozen=True)
class Machine:
    cores: int
    memory: int  # bytes that this process may use
    disk: int  # bytes free where runs lie

    @classmethod
    def here(cls, runs_dir: Path) -> Machine:
        """Runs lie in the nearest folder above that is there already."""
        existing = next(folder for folder in (runs_dir, *runs_dir.absolute().parents) if folder.exists())
        return cls(len(os.sched_getaffinity(0)), usable_ram(), shutil.disk_usage(existing).free)


def memory_rules(cfg: ExperimentConfig, spaces: Spaces, machine: Machine) -> Iterator[Advice]:
    rows = row_memory(cfg, spaces)
    try:
        rows.check(machine.memory)
    except ConfigError as error:
        text, _, _ = str(error).rpartition("; ")
        yield Advice("error", "memory", text, f"{rows.field}={_fitting(rows, machine.memory)}")


def _fitting(rows: RowMemory, memory: int) -> int:
    """Half of the memory, in a round number of rows."""
    most = max(memory // 2 // rows.row_bytes, 1)
    return int(most // 10 ** (len(str(most)) - 1) * 10 ** (len(str(most)) - 1))


def core_rules(cfg: ExperimentConfig, machine: Machine) -> Iterator[Advice]:
    asked = cfg.runtime.threads * cfg.runtime.learners
    if asked > machine.cores:
        what = "runtime.threads" if cfg.runtime.threads > 1 else "runtime.learners"
        remedy = f"{what}=1" if what == "runtime.threads" else f"{what}={machine.cores}"
        text = f"{asked} threads compute at once ({what}) on {machine.cores} cores: they wait for each other"
        yield Advice("warning", "threads", text, remedy)
    workers = cfg.rollout.workers if cfg.rollout.backend in ("auto", "process") else None
    for field, count in (("env.workers", cfg.env.workers), ("rollout.workers", workers)):
        if count is not None and count > machine.cores:
            text = f"{field} {count} on {machine.cores} cores: processes that wait for each other"
            yield Advice("warning", "workers", text, f"{field}={machine.cores}")
    if cfg.runtime.threads > cfg.resources.cpus and cfg.resources.backend != "local":
        text = f"runtime.threads {cfg.runtime.threads}, and the run asks for {cfg.resources.cpus} cores"
        yield Advice("warning", "cores_asked_for", text, f"resources.cpus={cfg.runtime.threads}")


def disk_needed(cfg: ExperimentConfig, spaces: Spaces, trainer: Trainer) -> int:
    """Bytes of all checkpoints that are kept at once, with the replay in them."""
    state = sum(_bytes(part.state_dict()) for part in trainer.stateful().values())
    kept = cfg.ckpt.keep_last + int(cfg.ckpt.keep_best) + 1  # one more that a roll-back goes to
    replay = row_memory(cfg, spaces).needed if algorithm(cfg.policy.algo).off_policy else 0
    return int(kept * state + REPLAY_COPIES * replay)


def disk_rules(cfg: ExperimentConfig, needed: int, machine: Machine) -> Iterator[Advice]:
    if needed > MOST_OF_DISK * machine.disk:
        text = f"its checkpoints need {needed / 2**30:,.2f} GiB, and {machine.disk / 2**30:,.2f} are free"
        remedy = "name a folder with more room by --runs-dir"
        yield Advice("error", "disk", text, f"ckpt.keep_last=1, or {remedy}" if cfg.ckpt.keep_last > 1 else remedy)


def _bytes(value: object) -> int:
    match value:
        case torch.Tensor():
            return value.numel() * value.element_size()
        case np.ndarray():
            return value.nbytes
        case Mapping():
            return sum(_bytes(inner) for inner in value.values())
        case list() | tuple():
            return sum(_bytes(inner) for inner in value)
    return 0
