"""The right to write a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlstudio.core.contracts.basics import State
from rlstudio.core.run_state import Reason, RunState


class Lease(Protocol):
    """The right to write a run, and its connection to the store of all runs.

    Everything a run commits passes here with the number of its ownership, `token`: a process whose run was taken over
    gets `LeaseLost` and has written nothing.
    """

    token: int

    def check(self) -> None:
        """Before each commit; `LeaseLost` when another owner has taken the run."""
        ...

    def move(self, state: RunState, reason: Reason, message: str, facts: State) -> tuple[RunState, Reason]:
        """The run changes its state; returns what it became: a stop that was asked for is not a mere signal."""
        ...

    def safe_point(self) -> bool:
        """Called at every Tick, as a sign of progress. True when a stop was asked for: the run stops here."""
        ...

    def tell(self, facts: State) -> None:
        """How far the run is. Cheap: called for every epoch."""
        ...

    def publish(self, checkpoints: Sequence[State]) -> None:
        """These checkpoints (step, state_hash, manifest_sha256) are whole on disk, and no others."""
        ...

    def release(self) -> None: ...
