"""What a machine has to give to runs, and what a run asks for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from rlstudio.control.store.records import RunRow
from rlstudio.core.errors import UserError
from rlstudio.core.host.ram import usable_ram

if TYPE_CHECKING:
    from rlstudio.core.resources import ResourcesConfig

KINDS = {"cpu": "cpus", "gpu": "gpus", "memory_mb": "memory_mb"}


@dataclass(frozen=True)
class Slots:
    cpus: int
    gpus: int = 0
    memory_mb: int = 0

    def __sub__(self, run: RunRow) -> Slots:
        return Slots(self.cpus - run.cpus, self.gpus - run.gpus, self.memory_mb - run.memory_mb)

    def fits(self, run: RunRow) -> bool:
        return run.cpus <= self.cpus and run.gpus <= self.gpus and run.memory_mb <= self.memory_mb

    def lacking(self, run: RunRow) -> str:
        """Why a run can never start here; empty where it can."""
        asked = {"cpus": (run.cpus, self.cpus), "gpus": (run.gpus, self.gpus), "MB": (run.memory_mb, self.memory_mb)}
        return ", ".join(f"{want} {kind} of {have}" for kind, (want, have) in asked.items() if want > have)

    def __str__(self) -> str:
        return f"cpu={self.cpus} gpu={self.gpus} memory_mb={self.memory_mb}"


class AskedFor(TypedDict, total=False):
    """What a run asks a scheduler for, as columns of its row."""

    priority: int
    cpus: int
    gpus: int
    memory_mb: int
    max_retries: int
    stall_seconds: float


def asked_for(resources: ResourcesConfig, device: str) -> AskedFor:
    """What a run asks for, as columns of its row. A device `cuda` in its config asks for one GPU."""
    return {
        "priority": resources.priority,
        "cpus": resources.cpus,
        "gpus": max(ceil(resources.gpus), int(device.startswith("cuda"))),
        "memory_mb": resources.memory_mb or 0,
        "max_retries": resources.retries,
        "stall_seconds": resources.stall_seconds,
    }


def left(slots: Slots, running: Iterable[RunRow]) -> Slots:
    for run in running:
        slots = slots - run
    return slots


def of_this_machine() -> Slots:
    """Processor cores and memory that this process may use, and GPUs that the driver lists."""
    nvidia = Path("/proc/driver/nvidia/gpus")
    gpus = len(list(nvidia.iterdir())) if nvidia.is_dir() else 0
    return Slots(len(os.sched_getaffinity(0)), gpus, usable_ram() >> 20)


def parse_slots(text: str) -> Slots:
    """`cpu=2,gpu=1,memory_mb=8000`; what is not named is what this machine has."""
    given: dict[str, int] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        kind, _, amount = part.partition("=")
        if kind not in KINDS or not re.fullmatch(r"[0-9]{1,9}", amount):
            raise UserError(f"--slots {part}: give cpu=N, gpu=N or memory_mb=N, separated by commas")
        given[KINDS[kind]] = int(amount)
    machine = of_this_machine()
    return Slots(**{name: given.get(name, getattr(machine, name)) for name in KINDS.values()})
