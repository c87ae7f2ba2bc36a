"""What was read of a checkpoint."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

from rlstudio.core.errors import Notice
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

    def name_rejected(self, run_id: str) -> None:
        """Say which were passed over, and why: whoever asked for the newest gets an older one."""
        for step, reason in self.rejected:
            text = f"run {run_id}: its checkpoint at {step:,} steps is damaged and was passed over: {reason}"
            warnings.warn(text, Notice, stacklevel=3)
