"""What answers look like, for the OpenAPI document and for clients. Documents may have more than what is declared."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class Run(Answer):
    """One run, as `rlctl ls --json` has it."""

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
    etag: str = Field(description="To be sent as If-Match with a change.")
    owner: str = ""
    priority: int = 0
    attempt: int = 0
    parent_id: str | None = None
    parent_step: int | None = None
    sweep: str = ""
    trial: int | None = None
    tags: list[str] = []
    note: str = ""
    spark: list[float | None] | None = None


class RunPage(Answer):
    items: list[Run]
    next_cursor: str | None
    total: int


class Checkpoint(Answer):
    step: int
    epoch: int | None
    state_hash: str
    exact: bool | None
    size: int


class WholeRun(Run):
    seeds: dict[str, Any]
    rollout_workers: dict[str, Any]
    topology: dict[str, Any] | None
    checkpoints: list[Checkpoint]
    weights: dict[str, Any] | None
    curriculum: dict[str, Any] | None
    lineage: dict[str, Any]
    relatives: list[dict[str, Any]]
    history: list[dict[str, Any]]


class Checkpoints(Answer):
    items: list[Checkpoint]


class ConfigChange(Answer):
    field: str
    before: Any = None
    after: Any = None


class ConfigAnswer(Answer):
    yaml: str
    config: dict[str, Any]
    changes: list[ConfigChange] | None


class MetricName(Answer):
    name: str
    kind: str
    last: float | None
    count: int


class MetricNames(Answer):
    names: list[MetricName]
    steps: int


class Series(Answer):
    """`clock`: when each point was measured, in seconds since 1970."""

    x: list[float]
    y: list[float | None]
    clock: list[float]


class SeriesAnswer(Answer):
    series: dict[str, Series]
    complete: bool
    next: str


class Event(Answer):
    seq: int
    time: float | None
    kind: str


class Events(Answer):
    items: list[Event]
    next: int


class LogText(Answer):
    text: str
    offset: int
    end: int


class Artifact(Answer):
    name: str
    size: int
    type: str


class Artifacts(Answer):
    items: list[Artifact]


class Comparison(Answer):
    metric: str
    direction: str
    groups: list[dict[str, Any]]
    notes: list[str]


class GroupCurve(Answer):
    name: str
    n: int
    x: list[float]
    iqm: list[float]
    low: list[float] | None
    high: list[float] | None
    runs: list[dict[str, Any]]


class Curves(Answer):
    metric: str
    groups: list[GroupCurve]
    notes: list[str]


class QueueAnswer(Answer):
    running: list[Run]
    queued: list[Run]
    paused: list[Run]
    not_recorded: list[Run]
    workers: list[dict[str, Any]]
    slots: dict[str, int]


class SweepRow(Answer):
    name: str
    state: str
    trials: int
    created_at: str
    etag: str


class SweepPage(Answer):
    items: list[SweepRow]


class SweepAnswer(Answer):
    """A sweep, as `rlctl sweep show --json` has it."""

    name: str
    state: str
    metric: str
    direction: str
    seeds: list[int]
    best: int | None
    importance: dict[str, float]
    trials: list[dict[str, Any]]
    etag: str


class VersionAnswer(Answer):
    name: str
    model: str
    version: int
    digest: str
    run_id: str
    step: int
    stage: str
    created_at: str


class Decision(Answer):
    seq: int
    version: int
    stage: str
    kind: str
    actor: str
    reason: str
    at: str
    verdict: dict[str, Any]


class Decisions(Answer):
    items: list[Decision]


class ModelRow(Answer):
    name: str
    versions: int
    newest: int
    production: int | None
    staging: int | None
    etag: str


class ModelPage(Answer):
    items: list[ModelRow]
    versions: list[VersionAnswer]


class ModelAnswer(Answer):
    name: str
    versions: list[VersionAnswer]
    history: list[Decision]


class CatalogAnswer(Answer):
    algos: list[dict[str, Any]]
    envs: list[dict[str, Any]]
    planners: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    presets: list[dict[str, Any]]
    sweeps: list[dict[str, Any]]


class PresetAnswer(Answer):
    name: str
    yaml: str
    config: dict[str, Any]


class SchemaAnswer(Answer):
    pass


class Launched(Answer):
    runs: list[Run]
    run: Run


class Validated(Answer):
    ok: bool
    config: dict[str, Any] | None
    yaml: str | None
    problems: list[dict[str, Any]]


class Health(Answer):
    status: str
    version: str


class Me(Answer):
    name: str
    role: str
