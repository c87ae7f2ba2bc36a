"""What a run asks for, and who starts it: the section `resources` of an experiment. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from rlstudio.core.config import Config, refuse


class ResourcesConfig(Config):
    backend: Literal["local", "ray"] = "local"
    """Who starts the run: `local`, a worker on its own machine; `ray`, on any node of a Ray cluster."""

    address: str = "auto"
    """HOST:PORT of the Ray cluster's head; `auto`: the cluster that RAY_ADDRESS names or `ray start` started here, else
    one on this machine alone."""

    cpus: PositiveInt = Field(1, le=4096)
    """Processor cores the run asks a scheduler for."""

    gpus: Annotated[int, Field(ge=0, le=64)] | Annotated[float, Field(ge=0, le=64)] = 0
    """GPUs the run asks a scheduler for; with `backend: ray` a share of one too, as 0.5."""

    memory_mb: PositiveInt | None = Field(None, le=10**8)
    """Memory the run asks a scheduler for; null: not stated."""

    priority: int = Field(0, ge=-1000, le=1000)
    """Queued runs with a higher one start first."""

    retries: NonNegativeInt = Field(3, le=1000)
    """Times a scheduler resumes the run after a crash without any progress in between."""

    stall_seconds: PositiveFloat = Field(600.0, le=10**6)
    """Seconds without an environment step, an update or a checkpoint after which a scheduler takes the run for hung."""

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
        if self.address != "auto" and self.backend != "ray":
            refuse(("address",), f"is for backend: ray, and the backend is {self.backend}; leave it out")
        return self
