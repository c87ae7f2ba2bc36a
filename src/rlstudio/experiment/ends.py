"""How a run ends by each kind of error: the state and the reason that its status shows."""

from __future__ import annotations

from rlstudio.core.errors import CheckpointError, Diverged, EnvFault, GateFailed, StorageError, UserError
from rlstudio.core.run_state import Reason, RunState

End = tuple[RunState, Reason]

ENDS: dict[type[Exception], End] = {
    StorageError: (RunState.INTERRUPTED, Reason.STORAGE),
    EnvFault: (RunState.FAILED, Reason.ENV_FAULT),
    Diverged: (RunState.FAILED, Reason.DIVERGED),
    GateFailed: (RunState.FAILED, Reason.GATE_FAILED),
    CheckpointError: (RunState.FAILED, Reason.NO_VALID_CHECKPOINT),
    UserError: (RunState.FAILED, Reason.CONFIG),
}


def end_of(error: Exception) -> End:
    """What is not in the table is a defect of ours."""
    return next((end for kind, end in ENDS.items() if isinstance(error, kind)), (RunState.FAILED, Reason.INTERNAL))
