"""What the server answers, as types: the documents of the command line with `--json`, or more than those."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class RunDocument(TypedDict):
    id: str
    handle: str
    name: str
    state: str
    reason: str
    message: str
    algo: str
    env_id: str
    seed: int
    config_hash: str
    epoch: int
    total_epochs: int
    env_steps: int
    gradient_steps: int
    train_return: float | None
    eval_return: float | None
    eval_interval: list[float] | None
    state_hash: str | None
    exact: bool
    exact_reason: str
    created_at: str
    updated_at: str
    recorded: bool
    paused: bool
    etag: str
    owner: NotRequired[str]
    priority: NotRequired[int]
    attempt: NotRequired[int]
    parent_id: NotRequired[str | None]
    parent_step: NotRequired[int | None]
    sweep: NotRequired[str]
    trial: NotRequired[int | None]
    tags: NotRequired[list[str]]
    note: NotRequired[str]
    spark: NotRequired[list[float | None]]
    position: NotRequired[int]


class RunsPage(TypedDict):
    items: list[RunDocument]
    next_cursor: str | None
    total: int


class CheckpointDocument(TypedDict):
    step: int
    epoch: int | None
    state_hash: str
    exact: bool | None
    size: int
    tags: list[str]  # `last` and `best`, as far as it is one of them


class WholeRunDocument(RunDocument):
    seeds: dict[str, Any]
    rollout_workers: dict[str, Any]
    topology: dict[str, Any] | None
    total_steps: int | None
    checkpoints: list[CheckpointDocument]
    weights: dict[str, Any] | None
    curriculum: dict[str, Any] | None
    lineage: dict[str, Any]
    relatives: list[dict[str, Any]]
    history: list[dict[str, Any]]


class Launch(TypedDict):
    runs: list[RunDocument]
    run: RunDocument


class FieldFinding(TypedDict):
    field: str
    message: str
    line: NotRequired[int]
    column: NotRequired[int]


class Validation(TypedDict):
    ok: bool
    config: dict[str, Any] | None
    yaml: str | None
    problems: list[FieldFinding]
    config_hash: NotRequired[str]
    seeds: NotRequired[list[int]]


class ConfigDocument(TypedDict):
    yaml: str
    config: dict[str, Any]
    changes: list[dict[str, Any]] | None


class MetricSummary(TypedDict):
    name: str
    kind: str
    last: float | None
    count: int


class MetricsDocument(TypedDict):
    names: list[MetricSummary]
    steps: int


class CurvePoints(TypedDict):
    x: list[float]
    y: list[float | None]
    clock: NotRequired[list[float]]
    low: NotRequired[list[float | None]]
    high: NotRequired[list[float | None]]


class CurvesSince(TypedDict):
    series: dict[str, CurvePoints]
    complete: bool  # these are the whole curves; otherwise only what came since the cursor
    next: str


class RunEvent(TypedDict):
    seq: int
    time: float | None
    kind: str


class EventsPage(TypedDict):
    items: list[RunEvent]
    next: int


class LogPiece(TypedDict):
    text: str
    offset: int
    end: int


class ArtifactDocument(TypedDict):
    name: str
    size: int
    type: str


class OperationDocument(TypedDict):
    id: str
    kind: str
    state: Literal["running", "done", "failed"]
    result: NotRequired[dict[str, Any] | None]
    error: NotRequired[dict[str, Any] | None]
    download: NotRequired[str]


class GroupCurveDocument(TypedDict):
    name: str
    n: int
    x: list[float]
    iqm: list[float]
    low: list[float] | None
    high: list[float] | None
    runs: list[dict[str, Any]]


class GroupCurves(TypedDict):
    metric: str
    groups: list[GroupCurveDocument]
    notes: NotRequired[list[str]]


class QueueDocument(TypedDict):
    running: list[RunDocument]
    queued: list[RunDocument]
    paused: list[RunDocument]
    not_recorded: list[RunDocument]
    workers: list[dict[str, Any]]
    slots: NotRequired[dict[str, int]]


class ModelsDocument(TypedDict):
    items: list[dict[str, Any]]
    versions: list[dict[str, Any]]


class ModelDocument(TypedDict):
    name: str
    versions: list[dict[str, Any]]
    history: list[dict[str, Any]]


class CatalogDocument(TypedDict):
    algos: list[dict[str, Any]]
    envs: list[dict[str, Any]]
    planners: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    presets: list[dict[str, Any]]


class PresetDocument(TypedDict):
    name: str
    yaml: str
    config: dict[str, Any]


class TokenDocument(TypedDict):
    name: str
    role: Literal["read", "act"]
    state: str
    token: NotRequired[str]  # the secret, shown once


class HealthDocument(TypedDict):
    status: str
    version: str


class CallerDocument(TypedDict):
    name: str
    role: Literal["read", "act"]
