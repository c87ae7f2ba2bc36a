"""What was read of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rlstudio.experiment.checkpoint.manifest import CheckpointInfo
from rlstudio.experiment.checkpoint.migrations import Content


@dataclass(frozen=True)
class Loaded:
    content: Content
    info: CheckpointInfo
    replay_damage: str | None = None  # why its replay was left out


class Rejected(NamedTuple):
    step: int
    reason: str


class NewestGood(NamedTuple):
    """The newest good checkpoint, and the newer ones that did not verify."""

    loaded: Loaded
    rejected: list[Rejected]
