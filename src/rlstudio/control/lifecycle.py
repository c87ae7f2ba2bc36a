r"""The life of a run: which moves there are, who may make them, and what follows from the history.

    QUEUED -> STARTING -> RUNNING -> COMPLETED
      |          |           |   \-> FAILED            what ends it before: an error, a gate, a guardrail
      |          |-----------|---> INTERRUPTED         a signal, a stop, a pause, a crash; resumable
      |          |---> STOPPING ---> CANCELLED, INTERRUPTED, COMPLETED, FAILED
      `-> CANCELLED, INTERRUPTED: paused

Everything else is refused. `control.store` makes each move in one transaction together with its event, so the state
always equals what the events add up to.
"""

from __future__ import annotations

from enum import StrEnum

from rlstudio.core.run_state import Reason, RunState

S = RunState


class Desired(StrEnum):
    """What the user wants of a run; passed to its process by the next heartbeat, and by a signal on the same host."""

    RUN = "run"
    STOP = "stop"
    CANCEL = "cancel"


MOVES: dict[RunState | None, frozenset[RunState]] = {
    None: frozenset({S.QUEUED}),
    S.QUEUED: frozenset({S.STARTING, S.CANCELLED, S.INTERRUPTED}),  # interrupted: paused by its user before it started
    S.STARTING: frozenset({S.RUNNING, S.STOPPING, S.FAILED, S.INTERRUPTED}),
    S.RUNNING: frozenset({S.STOPPING, S.COMPLETED, S.FAILED, S.INTERRUPTED}),
    S.STOPPING: frozenset({S.COMPLETED, S.FAILED, S.INTERRUPTED, S.CANCELLED}),
    S.INTERRUPTED: frozenset({S.QUEUED, S.CANCELLED}),
    S.FAILED: frozenset({S.QUEUED}),
    S.COMPLETED: frozenset({S.QUEUED}),  # only to be extended: there is more to train than before
    S.CANCELLED: frozenset(),
}

ENDED = frozenset({S.COMPLETED, S.FAILED, S.INTERRUPTED, S.CANCELLED})

RETRIED: dict[RunState, frozenset[Reason]] = {
    S.INTERRUPTED: frozenset({Reason.ORPHANED, Reason.HUNG, Reason.RANK_LOST, Reason.STORAGE, Reason.SIGNAL}),
    S.FAILED: frozenset({Reason.ENV_FAULT}),
}
"""Ends that may go away by themselves: a scheduler tries again. A stop by the user, a gate or a divergence stays."""


def outcome_of_stop(
    state: RunState, asked: Reason, desired: Desired, to: RunState, reason: Reason
) -> tuple[RunState, Reason]:
    """What an interruption means for a run that was asked to stop: the user wanted it, or wanted it paused, or gone.
    `asked` is the reason why it is STOPPING."""
    if to != S.INTERRUPTED or state != S.STOPPING or desired == Desired.RUN:
        return to, reason
    if desired == Desired.CANCEL:
        return S.CANCELLED, Reason.USER
    return S.INTERRUPTED, Reason.PAUSED if asked == Reason.PAUSED else Reason.USER


def backoff_seconds(failures: int) -> float:
    """How long a run waits after so many failures in a row without progress: 1, 2, 4, ... at most 60 s."""
    return float(min(60, 2 ** max(0, failures - 1)))


def is_retried(state: RunState, reason: Reason, desired: Desired = Desired.RUN) -> bool:
    """Whether such an end may go away by itself. What the user asked to stop stays stopped, however it ended."""
    return desired == Desired.RUN and reason in RETRIED.get(state, frozenset())


def failure_counts(failures: int, failed_at: int, steps: int) -> tuple[int, int]:
    """Failures in a row, and the farthest point they were at, after one more at `steps`: only getting farther than
    ever starts the count again, so a run that fails here and there before one point is not tried for ever."""
    return 1 + (failures if steps <= failed_at else 0), max(failed_at, steps)
