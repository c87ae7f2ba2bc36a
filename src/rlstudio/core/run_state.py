"""The states of a run, and why it is in one. Which moves are allowed is the business of `control.lifecycle`."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    INTERRUPTED = "INTERRUPTED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


OWNED = frozenset({RunState.STARTING, RunState.RUNNING, RunState.STOPPING})
"""A living process is behind these."""


class Reason(StrEnum):
    """Why a run is in its state; empty where the state says all."""

    NONE = ""
    USER = "user"
    SIGNAL = "signal"
    ORPHANED = "orphaned"
    HUNG = "hung"
    STORAGE = "storage"
    ENV_FAULT = "env_fault"
    DIVERGED = "diverged"
    GATE_FAILED = "gate_failed"
    NO_VALID_CHECKPOINT = "no_valid_checkpoint"
    CONFIG = "config"
    INTERNAL = "internal"
    RESUMED = "resumed"
    RETRY = "retry"
    EXTENDED = "extended"
    ADOPTED = "adopted"
    PAUSED = "paused"
