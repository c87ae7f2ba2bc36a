"""What a run asks for, and who starts it: the section `resources` of an experiment. Free of torch."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from rlstudio.core.config import Config, refuse

SHORTEST_JOB = 300
"""Seconds. A job that ends within the two minutes that are kept for saving would be put back again and again."""


def _slurm_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.,+-]{1,64}", value):
        raise ValueError(f"expected a name of 1 to 64 letters, digits and `_ . , + -`, got {value!a}")
    return value


def _slurm_time(value: str) -> str:
    if not re.fullmatch(r"([0-9]{1,4}-)?[0-9]{1,4}(:[0-9]{2}){0,2}", value):
        raise ValueError(f"expected minutes, HH:MM:SS or DAYS-HH:MM:SS, as in 1-12:00:00, got {value!a}")
    days, dash, clock = value.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    seconds = 86_400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))
    if 0 < seconds < SHORTEST_JOB:
        wanted = f"give it {SHORTEST_JOB // 60} minutes or more"
        raise ValueError(f"{value} is too short, because the run saves two minutes before the end of its job; {wanted}")
    return value


def _minutes(value: object) -> object:
    """YAML reads `time_limit: 30` as a number; for Slurm it is 30 minutes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


SlurmName = Annotated[str, AfterValidator(_slurm_name)]
SlurmTime = Annotated[str, AfterValidator(_slurm_time), BeforeValidator(_minutes)]


class ResourcesConfig(Config):
    backend: Literal["local", "ray", "slurm"] = "local"
    """Where the run is started. `local`: on the machine of the worker; `ray`: on a node of a Ray cluster; `slurm`: as a
    Slurm job."""

    address: str = "auto"
    """HOST:PORT of the Ray cluster's head; `auto`: the cluster that RAY_ADDRESS names or that `ray start` started here,
    otherwise one on this machine alone."""

    partition: SlurmName | None = None
    """The partition of Slurm; null: Slurm's default."""

    account: SlurmName | None = None
    """The account that Slurm charges; null: Slurm's default."""

    time_limit: SlurmTime | None = None
    """Time limit of one Slurm job, in minutes or as in `1-12:00:00`; the run saves before the limit and continues in a
    requeued job; null: Slurm's default."""

    cpus: PositiveInt = Field(1, le=4096)
    """Processor cores to request from a scheduler."""

    gpus: Annotated[int, Field(ge=0, le=64)] | Annotated[float, Field(ge=0, le=64)] = 0
    """GPUs to request from a scheduler; with `backend: ray` also a fraction of one, for example 0.5."""

    memory_mb: PositiveInt | None = Field(None, le=10**8)
    """Memory to request from a scheduler; null: not stated."""

    priority: int = Field(0, ge=-1000, le=1000)
    """Queued runs with a higher priority start first."""

    retries: NonNegativeInt = Field(3, le=1000)
    """How often a scheduler resumes the run after crashes without any progress between them."""

    stall_seconds: PositiveFloat = Field(600.0, le=10**6)
    """Seconds without an environment step, an update or a checkpoint after which a scheduler considers the run hung."""

    @field_validator("address")
    @classmethod
    def _reachable(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if value != "auto" and not (host and "/" not in host and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise ValueError(f"expected auto or HOST:PORT of the cluster's head, got {value!a}")
        return value

    @model_validator(mode="after")
    def _fits_backend(self) -> ResourcesConfig:
        if self.gpus != int(self.gpus) and self.backend != "ray":
            refuse(("gpus",), f"{self.gpus:g} of a GPU can be had with backend: ray alone; give a whole number")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            refuse(("gpus",), f"{self.gpus:g}: Ray shares one GPU, not several; give a whole number, or at most 1")
        for name in ("partition", "account", "time_limit"):
            if getattr(self, name) is not None and self.backend != "slurm":
                refuse((name,), f"is for backend: slurm, and the backend is {self.backend}; leave it out")
        if self.address != "auto" and self.backend != "ray":
            refuse(("address",), f"is for backend: ray, and the backend is {self.backend}; leave it out")
        return self
