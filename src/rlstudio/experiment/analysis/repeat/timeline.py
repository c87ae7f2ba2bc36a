"""What a run went through, as its events tell it: where it was made longer, rolled back, or went on inexactly.

All of it must be gone through again, in the same order, by whoever wants to stand at a later step of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import CheckpointInfo
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import recorded_lineage


class Stretch(NamedTuple):
    """The run was to be `epochs` long, from a step on: from its start, or from where it was made longer."""

    begins: int
    epochs: int


class Rollback(NamedTuple):
    """The attempt that began there; what the one before it did after that step counts no more."""

    attempt: int
    to_step: int


class Break(NamedTuple):
    """The run went on from there, and not to the bits that it would have come to otherwise."""

    step: int
    reason: str


@dataclass(frozen=True)
class Beginning:
    """What a run that was forked began with."""

    step: int
    of: str  # the run or bundle, for a message
    run_id: str | None = None  # None: the weights of a bundle
    state_hash: str = ""


@dataclass(frozen=True)
class Timeline:
    stretches: tuple[Stretch, ...]
    rollbacks: tuple[Rollback, ...]
    breaks: tuple[Break, ...]
    beginning: Beginning | None  # None: it began with nothing
    inexact: str  # why a checkpoint of it is not the whole state; empty where it is
    kept: tuple[CheckpointInfo, ...]  # its checkpoints, newest first

    def attempt_at(self, step: int) -> int:
        """Which attempt did the step that counts."""
        return max((rollback.attempt for rollback in self.rollbacks if rollback.to_step < step), default=0)

    def ends(self, attempt: int) -> int | None:
        """From which step on another attempt counts; None for the last one."""
        later = [rollback.to_step for rollback in self.rollbacks if rollback.attempt > attempt]
        return min(later, default=None)

    def stretches_to(self, base: int, step: int) -> list[Stretch]:
        """Those that lead from a checkpoint at `base` to `step`."""
        first = max((index for index, stretch in enumerate(self.stretches) if stretch.begins <= base), default=0)
        reached = [stretch for stretch in self.stretches[first + 1 :] if stretch.begins < step]
        return [self.stretches[first], *reached]

    def break_between(self, base: int, step: int) -> Break | None:
        """The last one that was passed from `base` to `step`."""
        return next((one for one in reversed(self.breaks) if base < one.step < step), None)


def timeline_of(folder: RunFolder) -> Timeline:
    """Reads events and manifests; writes nothing."""
    kept = tuple(Checkpoints(folder.path, folder.id, lease=None).list())
    status, events = folder.read_status(), list(folder.events())
    born = next((event for event in events if event.get("kind") == "created"), {})
    extended = [event for event in events if event.get("kind") == "extended"]
    first = born.get("total_epochs") if extended else status.total_epochs
    stretches = [
        Stretch(0, _whole(first)),
        *(Stretch(_steps(event), _whole(event["total_epochs"])) for event in extended),
    ]
    rollbacks = [
        Rollback(_whole(event.get("attempt")), _whole(event.get("to_env_steps")))
        for event in events
        if event.get("kind") == "rolled_back"
    ]
    breaks = tuple(_breaks(events))
    inexact = "" if status.exact or _is_of_a_break(events) else status.exact_reason
    return Timeline(tuple(stretches), tuple(rollbacks), breaks, _beginning(folder, kept), inexact, kept)


def _breaks(events: list[dict[str, object]]) -> Iterator[Break]:
    """Each time that a run goes on once it is inexact, and the last time before that was found out. A fork's first
    checkpoint is none: what it was computed with there is its own beginning."""
    resumed: list[int] = []
    reason = ""
    for event in events:
        if event.get("kind") == "resumed":
            resumed.append(_steps(event))
            if reason:
                yield Break(resumed[-1], reason)
        elif event.get("kind") == "inexact":
            is_first, reason = not reason, str(event.get("reason"))
            if is_first and resumed:
                yield Break(resumed[-1], reason)


def _is_of_a_break(events: list[dict[str, object]]) -> bool:
    """Whether the run became inexact by going on somewhere, and not by what its environment is."""
    kinds = [event.get("kind") for event in events]
    at = kinds.index("inexact") if "inexact" in kinds else None
    return at is not None and ("resumed" in kinds[:at] or "resumed" in kinds[at : at + 2])


def _beginning(folder: RunFolder, kept: tuple[CheckpointInfo, ...]) -> Beginning | None:
    origin = kept[0].origin if kept else None
    if origin is not None:
        return Beginning(origin.step, f"run {origin.run_id}", origin.run_id, origin.state_hash)
    weights = (recorded_lineage(folder) or {}).get("weights")
    if isinstance(weights, dict):
        return Beginning(0, str(weights.get("version") or weights.get("bundle")))
    return None


def _steps(event: dict[str, object]) -> int:
    return _whole(event.get("env_steps"))


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
