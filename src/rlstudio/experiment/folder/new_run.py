"""What is known of a run before it starts: derived from its config, stored in its folder and in the store."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from rlstudio.experiment.folder.status import Status


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
    def from_status(cls, status: Status, config_yaml: str, **more: Any) -> Self:
        """From the status of an existing run; `more` are the fields that a subclass adds."""
        values = {name: getattr(status, name) for name in STATUS_FIELDS}
        return cls(**values, config_yaml=config_yaml, **more)

    def status_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in STATUS_FIELDS}


STATUS_FIELDS = tuple(field.name for field in fields(NewRun) if field.name != "config_yaml")
"""The fields that `Status` has under the same names."""
