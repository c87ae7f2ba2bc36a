"""What the store gives out: frozen records, free of SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from rlstudio.control.lifecycle import Desired, is_retried
from rlstudio.core.errors import StorageError
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.status import Status

if TYPE_CHECKING:
    from sqlalchemy import RowMapping


class SweepOrigin(TypedDict, total=False):
    """The sweep that a run belongs to, as columns of its row."""

    sweep: str
    trial: int
    pause_at: int


class RunOrigin(SweepOrigin, total=False):
    """Where a run comes from, as columns of its row."""

    parent_id: str


@dataclass(frozen=True)
class RunRequest(NewRun):
    """A run to be: what it is, what it asks for and where it comes from."""

    owner: str = ""
    lineage: Mapping[str, object] | None = None
    parent_id: str | None = None
    parent_step: int | None = None
    sweep: str = ""
    trial: int | None = None
    priority: int = 0
    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0
    max_retries: int = 0
    stall_seconds: float = 600.0
    pause_at: int = 0
    imports: tuple[str, ...] = ()  # modules that the user named with --import
    import_path: tuple[str, ...] = ()  # folders in which they were found
    notify: tuple[str, ...] = ()  # the command that the user named with --notify


@contextmanager
def naming_damage(run_id: object) -> Iterator[None]:
    """Around what takes up the columns of a row, which another program may have written."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise StorageError(
            f"run {run_id!r}: its row in the store is damaged ({error}); put a backup of the store in its place, or put"
            " it aside and take the runs in again with: rlctl adopt RUN_FOLDER"
        ) from error


@dataclass(frozen=True)
class RunRow:
    """One run as the store knows it."""

    seq: int
    id: str
    name: str
    owner: str
    algo: str
    env_id: str
    seed: int
    config_hash: str
    parent_id: str | None
    parent_step: int | None
    sweep: str
    trial: int | None
    created_at: str
    priority: int
    cpus: int
    gpus: int
    memory_mb: int
    max_retries: int
    stall_seconds: float
    state: RunState
    reason: Reason
    message: str
    desired: Desired
    version: int
    updated_at: str
    token: int
    attempt: int
    host: str
    boot_id: str
    pid: int
    pid_start: int
    heartbeat: int
    progress: int
    is_managed: bool
    has_process: bool  # its own process has it; before that, the scheduler that claimed it
    devices: str
    failures: int
    failed_at: int
    env_steps: int
    gradient_steps: int
    epoch: int
    total_epochs: int
    eval_return: float | None
    eval_low: float | None
    eval_high: float | None
    state_hash: str | None
    exact: bool
    exact_reason: str
    pause_at: int = 0  # the epoch after which it is to wait for more; 0: none
    pid_namespace: int = 0
    tags: tuple[str, ...] = ()
    note: str = ""
    train_return: float | None = None

    @classmethod
    def from_row(cls, row: RowMapping) -> RunRow:
        values: dict[str, Any] = {name: row[name] for name in RUN_COLUMNS}
        with naming_damage(values["id"]):
            values["state"], values["desired"] = RunState(values["state"]), Desired(values["desired"])
            values["reason"] = Reason(values["reason"])
            values["tags"] = tuple(json.loads(values["tags"]))
        values |= {name: bool(values[name]) for name in ("is_managed", "has_process", "exact")}
        return cls(**values)

    @property
    def process(self) -> Owner:
        """Which process has it, or had it last."""
        return Owner.from_record(vars(self))

    @property
    def device_list(self) -> list[int]:
        """The GPUs it was given."""
        return [int(index) for index in self.devices.split(",") if index]

    @property
    def is_owned(self) -> bool:
        return self.state in OWNED

    @property
    def may_retry(self) -> bool:
        """Whether it ended in a way that may go away by itself, and has not done so too often already."""
        return is_retried(self.state, self.reason, self.desired) and self.failures <= self.max_retries

    @property
    def is_paused(self) -> bool:
        """Whether its user paused it: it keeps its place in the queue, and nothing but its user, or a sweep that is
        resumed, lets it go on. Nobody asked a run to stop that waits at a rung of its sweep, so that one is not."""
        return (self.state, self.reason, self.desired) == (RunState.INTERRUPTED, Reason.PAUSED, Desired.STOP)

    @property
    def is_at_rung(self) -> bool:
        """Whether it has come to the epoch after which it is to wait for its sweep."""
        return 0 < self.pause_at <= self.epoch

    @cached_property
    def status(self) -> Status:
        """As a run folder records it."""
        names = {field.name for field in fields(Status)} & set(RUN_COLUMNS)
        known = {name: getattr(self, name) for name in names}
        low, high = self.eval_low, self.eval_high
        return Status(**known, eval_interval=None if low is None or high is None else (low, high))


RUN_COLUMNS = tuple(field.name for field in fields(RunRow))
"""All but those which a list never needs: config_yaml, lineage, imports and import_path."""


@dataclass(frozen=True)
class Event:
    """One move in the life of a run."""

    version: int
    state: RunState
    reason: Reason
    message: str
    token: int
    at: str


@dataclass(frozen=True)
class Checkpoint:
    step: int
    state_hash: str
    manifest_sha256: str
    token: int


@dataclass(frozen=True)
class Consent:
    """What the user lets a run do: the modules that it imports, the folders in which they are found, and the command
    that is told how it ended."""

    modules: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()

    @classmethod
    def from_columns(cls, imports: str, import_path: str) -> Consent:
        """A list of modules, or, where there is a command too, both by name."""
        allowed = json.loads(imports)
        modules, notify = (allowed["modules"], allowed["notify"]) if isinstance(allowed, dict) else (allowed, ())
        return cls(tuple(modules), tuple(json.loads(import_path)), tuple(notify))

    def as_columns(self) -> dict[str, str]:
        modules = list(self.modules)
        allowed = {"modules": modules, "notify": list(self.notify)} if self.notify else modules
        return {"imports": json.dumps(allowed), "import_path": json.dumps(list(self.path))}


def facts_as_columns(facts: Mapping[str, object]) -> dict[str, object]:
    """What a run reports about itself (`Status.facts`), as columns; non-finite floats become NULL."""
    values = dict(facts)
    if "eval_interval" in values:
        interval: Any = values.pop("eval_interval") or (None, None)
        values["eval_low"], values["eval_high"] = interval
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def request_as_columns(request: RunRequest) -> dict[str, object]:
    values = {field.name: getattr(request, field.name) for field in fields(RunRequest) if field.name != "notify"}
    consent = Consent(request.imports, request.import_path, request.notify)
    return {**values, "lineage": json.dumps(request.lineage or {}, sort_keys=True), **consent.as_columns()}
