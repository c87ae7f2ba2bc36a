"""The states of a run, and why it is in one. Which moves are allowed is the business of `control.lifecycle`."""

from __future__ import annotations

from enum import StrEnum

from rlstudio.core.errors import (
    CheckpointError,
    Diverged,
    EnvFault,
    GateFailed,
    RankLost,
    RLStudioError,
    StorageError,
    UserError,
)


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
    RANK_LOST = "rank_lost"
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
    GOAL = "goal"
    PLATEAU = "plateau"
    COLLAPSED = "collapsed"
    ADOPTED = "adopted"
    PAUSED = "paused"

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        """A newer RLStudio may know more of them."""
        return cls.NONE if isinstance(value, str) else None


End = tuple[RunState, Reason]

_ENDS: dict[type[RLStudioError], End] = {
    StorageError: (RunState.INTERRUPTED, Reason.STORAGE),
    RankLost: (RunState.INTERRUPTED, Reason.RANK_LOST),
    EnvFault: (RunState.FAILED, Reason.ENV_FAULT),
    Diverged: (RunState.FAILED, Reason.DIVERGED),
    GateFailed: (RunState.FAILED, Reason.GATE_FAILED),
    CheckpointError: (RunState.FAILED, Reason.NO_VALID_CHECKPOINT),
    UserError: (RunState.FAILED, Reason.CONFIG),
}


def end_of(error: Exception) -> End:
    """The state and reason of a run that ended by this error. What is not in the table is a defect of ours."""
    return next((end for kind, end in _ENDS.items() if isinstance(error, kind)), (RunState.FAILED, Reason.INTERNAL))


def exit_code_of(state: RunState, reason: Reason) -> int:
    """What the command line returns for a run that ended so in another process: the code of the error it ended by."""
    if state == RunState.COMPLETED:
        return 0
    return next((kind.exit_code for kind, end in _ENDS.items() if end == (state, reason)), RLStudioError.exit_code)
