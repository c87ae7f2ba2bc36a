"""What is known of a run before it starts: derived from its config, stored in its folder and in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypedDict

from rlstudio.experiment.folder.status import Status


class StatusFields(TypedDict):
    """The fields that `Status` has under the same names."""

    name: str
    algo: str
    env_id: str
    config_hash: str
    seed: int
    total_epochs: int


@dataclass(frozen=True)
class NewRun:
    name: str
    algo: str
    env_id: str
    config_yaml: str
    config_hash: str = ""
    seed: int = 0
    total_epochs: int = 0

    @classmethod
    def from_status(cls, status: Status, config_yaml: str, **more: object) -> Self:
        """From the status of an existing run; `more` are the fields that a subclass adds."""
        values: dict[str, Any] = {name: getattr(status, name) for name in STATUS_FIELDS} | more
        return cls(config_yaml=config_yaml, **values)

    def status_fields(self) -> StatusFields:
        return {
            "name": self.name,
            "algo": self.algo,
            "env_id": self.env_id,
            "config_hash": self.config_hash,
            "seed": self.seed,
            "total_epochs": self.total_epochs,
        }


STATUS_FIELDS = tuple(StatusFields.__annotations__)
