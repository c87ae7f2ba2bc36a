"""How a run ends by each kind of error: the state and the reason that its status shows."""

from __future__ import annotations

from rlstudio.core.errors import CheckpointError, Diverged, EnvFault, GateFailed, StorageError, UserError
from rlstudio.experiment.status import RunState

End = tuple[RunState, str]

ENDS: dict[type[Exception], End] = {
    StorageError: (RunState.INTERRUPTED, "storage"),
    EnvFault: (RunState.FAILED, "env_fault"),
    Diverged: (RunState.FAILED, "diverged"),
    GateFailed: (RunState.FAILED, "gate_failed"),
    CheckpointError: (RunState.FAILED, "no_valid_checkpoint"),
    UserError: (RunState.FAILED, "config"),
}


def end_of(error: Exception) -> End:
    """What is not in the table is a defect of ours."""
    return next((end for kind, end in ENDS.items() if isinstance(error, kind)), (RunState.FAILED, "internal"))
