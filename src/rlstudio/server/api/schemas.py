"""What answers look like, for the OpenAPI document and for clients. Documents may have more than what is declared."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class AnswerSchema(BaseModel):
    model_config = ConfigDict(extra="allow")


class RunSchema(AnswerSchema):
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


class RunPageSchema(AnswerSchema):
    items: list[RunSchema]
    next_cursor: str | None
    total: int


class CheckpointSchema(AnswerSchema):
    step: int
    epoch: int | None
    state_hash: str
    exact: bool | None
    size: int
    tags: list[str] = Field([], description="`last` and `best`, as far as it is one of them.")


class WholeRunSchema(RunSchema):
    seeds: dict[str, Any]
    rollout_workers: dict[str, Any]
    topology: dict[str, Any] | None
    total_steps: int | None = Field(None, description="Environment steps that it is to take in all.")
    checkpoints: list[CheckpointSchema]
    weights: dict[str, Any] | None
    curriculum: dict[str, Any] | None
    lineage: dict[str, Any]
    relatives: list[dict[str, Any]]
    history: list[dict[str, Any]]


class CheckpointsSchema(AnswerSchema):
    items: list[CheckpointSchema]


class ConfigChangeSchema(AnswerSchema):
    field: str
    before: Any = None
    after: Any = None


class ConfigSchema(AnswerSchema):
    yaml: str
    config: dict[str, Any]
    changes: list[ConfigChangeSchema] | None


class MetricNameSchema(AnswerSchema):
    name: str
    kind: str
    last: float | None
    count: int


class MetricNamesSchema(AnswerSchema):
    names: list[MetricNameSchema]
    steps: int


class CurveSchema(AnswerSchema):
    """`clock`: when each point was measured, in seconds since 1970."""

    x: list[float]
    y: list[float | None]
    clock: list[float]


class SeriesSchema(AnswerSchema):
    series: dict[str, CurveSchema]
    complete: bool
    next: str


class EventSchema(AnswerSchema):
    seq: int
    time: float | None
    kind: str


class EventsSchema(AnswerSchema):
    items: list[EventSchema]
    next: int


class LogTextSchema(AnswerSchema):
    text: str
    offset: int
    end: int


class ArtifactSchema(AnswerSchema):
    name: str
    size: int
    type: str


class ArtifactsSchema(AnswerSchema):
    items: list[ArtifactSchema]


class CatalogSchema(AnswerSchema):
    algos: list[dict[str, Any]]
    envs: list[dict[str, Any]]
    planners: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    presets: list[dict[str, Any]]
    sweeps: list[dict[str, Any]]


class PresetSchema(AnswerSchema):
    name: str
    yaml: str
    config: dict[str, Any]


class SchemaSchema(AnswerSchema):
    pass


class LaunchedSchema(AnswerSchema):
    runs: list[RunSchema]
    run: RunSchema


class ValidatedSchema(AnswerSchema):
    ok: bool
    config: dict[str, Any] | None
    yaml: str | None
    problems: list[dict[str, Any]]


class HealthSchema(AnswerSchema):
    status: str
    version: str


class MeSchema(AnswerSchema):
    name: str
    role: str


class OperationSchema(AnswerSchema):
    """`error` is a problem document; `download` is there once an export is done."""

    id: str
    kind: str
    state: Literal["running", "done", "failed"]
    created_at: str
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    download: str | None = None
