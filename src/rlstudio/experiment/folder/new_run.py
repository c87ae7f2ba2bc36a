"""What a run is from its first moment on: given by its config, kept by its folder and by the store."""

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
        """Of a run that is there already; `more` are the fields that a subclass adds."""
        known = {name: getattr(status, name) for name in STATUS_FIELDS}
        return cls(**known, config_yaml=config_yaml, **more)

    def status_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in STATUS_FIELDS}


STATUS_FIELDS = tuple(field.name for field in fields(NewRun) if field.name != "config_yaml")
"""Those that `Status` has too, under the same names."""
