"""The content of `status.json`: a run's own copy of its state, cheap to read for thousands of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from types import UnionType
from typing import Any, get_type_hints

from rlstudio.core.host.process import Owner, is_gone
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.storage.verified import LARGEST_NUMBER

FACTS = (
    "config_hash",
    "env_steps",
    "gradient_steps",
    "epoch",
    "total_epochs",
    "eval_return",
    "eval_interval",
    "train_return",
    "state_hash",
    "exact",
    "exact_reason",
)


@dataclass(frozen=True)
class Status:
    id: str
    name: str
    state: RunState
    reason: Reason = Reason.NONE
    message: str = ""  # one line for a person
    algo: str = ""
    env_id: str = ""
    seed: int = 0
    config_hash: str = ""
    env_steps: int = 0
    gradient_steps: int = 0
    epoch: int = 0
    total_epochs: int = 0
    eval_return: float | None = None
    eval_interval: tuple[float, float] | None = None
    train_return: float | None = None  # of the episodes of the last epoch that ended some
    state_hash: str | None = None
    exact: bool = True
    exact_reason: str = ""
    host: str = ""
    boot_id: str = ""
    pid: int = 0
    pid_start: int = 0
    pid_namespace: int = 0
    created_at: str = ""  # ISO 8601, UTC
    updated_at: str = ""

    @property
    def process(self) -> Owner:
        """Which process has the run, or had it last."""
        return Owner.from_record(vars(self))

    def owned_by(self, owner: Owner) -> Status:
        return replace(self, **asdict(owner))

    def facts(self) -> dict[str, object]:
        """What the run has done so far, without its identity and its owner."""
        return {name: getattr(self, name) for name in FACTS}

    def to_json(self) -> dict[str, object]:
        return {name: _finite(value) for name, value in asdict(self).items()}


def corrected_if_orphaned(status: Status) -> Status:
    """INTERRUPTED where the process that owns the run is gone, whatever the file still says."""
    if status.state not in OWNED or not is_gone(status.process):
        return status
    message = f"process {status.pid} ended without recording why; go on with: rlctl resume {status.id}"
    return replace(status, state=RunState.INTERRUPTED, reason=Reason.ORPHANED, message=message)


def parse_status(data: bytes) -> Status | None:
    """The status in these bytes, or None when they are damaged. Fields of a newer RLStudio are passed over."""
    try:
        value = json.loads(data)
        return _from_json(value)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def _from_json(value: Mapping[str, object]) -> Status:
    known: dict[str, Any] = {name: value[name] for name in _kinds() if name in value}
    known["state"] = RunState(known["state"])
    known["reason"] = Reason(known.get("reason", ""))
    if known.get("eval_interval") is not None:
        low, high = known["eval_interval"]
        known["eval_interval"] = (float(low), float(high))
    for name, kind in _kinds().items():
        if name in known and name != "eval_interval" and not isinstance(known[name], kind):
            raise TypeError(f"{name} is {known[name]!r}")
        if isinstance(number := known.get(name), int) and abs(number) > LARGEST_NUMBER:
            raise ValueError(f"{name} is larger than any number of ours")
    return Status(**known)


@cache
def _kinds() -> dict[str, type | UnionType]:
    """What `isinstance` accepts for each field; JSON does not tell 1 from 1.0."""
    hints = get_type_hints(Status)
    return {
        field.name: int | hints[field.name] if hints[field.name] == float | None else hints[field.name]
        for field in fields(Status)
    }


def _finite(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
