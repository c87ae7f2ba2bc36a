"""What answers about many runs look like: comparisons, the queue, sweeps, models."""

from __future__ import annotations

from typing import Any

from rlstudio.server.api.schemas import AnswerSchema, RunSchema


class EstimateSchema(AnswerSchema):
    """Without an interval where there are too few runs for one."""

    value: float | None
    low: float | None
    high: float | None


class GroupResultSchema(AnswerSchema):
    """`improvement`: how probably a run of this group ends above one of the first group."""

    name: str
    n: int
    envs: list[str]
    algos: list[str]
    iqm: EstimateSchema | None
    mean: EstimateSchema | None
    improvement: EstimateSchema | None
    runs: list[dict[str, Any]]


class ComparisonSchema(AnswerSchema):
    metric: str
    direction: str
    groups: list[GroupResultSchema]
    notes: list[str]


class GroupCurveSchema(AnswerSchema):
    name: str
    n: int
    x: list[float]
    iqm: list[float]
    low: list[float] | None
    high: list[float] | None
    runs: list[dict[str, Any]]


class CurvesSchema(AnswerSchema):
    metric: str
    groups: list[GroupCurveSchema]
    notes: list[str]


class WorkerSchema(AnswerSchema):
    id: str
    host: str
    cpus: int
    gpus: int
    memory_mb: int
    steps_per_second: float


class QueueSchema(AnswerSchema):
    """`slots` is what all workers have, `in_use` what the runs at work asked for."""

    running: list[RunSchema]
    queued: list[RunSchema]
    paused: list[RunSchema]
    not_recorded: list[RunSchema]
    workers: list[WorkerSchema]
    slots: dict[str, int]
    in_use: dict[str, int]


class SweepRowSchema(AnswerSchema):
    name: str
    state: str
    trials: int
    live_trials: list[int]
    created_at: str
    etag: str


class SweepPageSchema(AnswerSchema):
    items: list[SweepRowSchema]


class TrialSchema(AnswerSchema):
    """`results`: by epoch, then by seed; `bound`: what trials are ranked by."""

    number: int
    name: str
    state: str
    params: dict[str, Any]
    value: float | None
    bound: float | None
    epoch: int
    target: int
    parent: int | None
    message: str
    results: dict[str, dict[str, float]]
    env_steps: int
    runs: list[str]


class SweepSchema(AnswerSchema):
    """A sweep, as `rlctl sweep show --json` has it."""

    name: str
    state: str
    driver: dict[str, Any] | None
    metric: str
    direction: str
    seeds: list[int]
    sampler: str
    pruner: str
    planned: int
    epochs: int
    rungs: list[int]
    space: dict[str, dict[str, Any]]
    env_steps: int
    paused: int
    best: int | None
    importance: dict[str, float]
    trials: list[TrialSchema]
    etag: str


class VersionSchema(AnswerSchema):
    name: str
    model: str
    version: int
    digest: str
    run_id: str
    step: int
    stage: str
    created_at: str


class DecisionSchema(AnswerSchema):
    seq: int
    model: str
    version: int
    stage: str
    kind: str
    actor: str
    reason: str
    at: str
    verdict: dict[str, Any]


class DecisionsSchema(AnswerSchema):
    items: list[DecisionSchema]


class ModelRowSchema(AnswerSchema):
    name: str
    versions: int
    newest: int
    production: int | None
    staging: int | None
    etag: str


class ModelPageSchema(AnswerSchema):
    items: list[ModelRowSchema]
    versions: list[VersionSchema]


class ModelSchema(AnswerSchema):
    """`before`: the version that a rollback brings back; null where none was in production before."""

    name: str
    versions: list[VersionSchema]
    history: list[DecisionSchema]
    before: int | None
