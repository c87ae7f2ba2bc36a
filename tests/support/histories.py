"""What a history of events adds up to, by the definition alone: what the store's and the registry's tables must say."""

from __future__ import annotations

from collections.abc import Iterable

from rlstudio.control.lifecycle import MOVES
from rlstudio.control.registry.records import Decision, Stage
from rlstudio.core.run_state import RunState


def state_after(states: Iterable[RunState]) -> RunState:
    """The state of a run after these moves; ValueError for a history that cannot be."""
    current: RunState | None = None
    for state in states:
        if state not in MOVES[current]:
            raise ValueError(f"{current or 'nothing'} cannot become {state}")
        current = state
    if current is None:
        raise ValueError("no history")
    return current


def stages_after(decisions: Iterable[Decision]) -> dict[tuple[str, int], Stage]:
    """The stages of all versions after these decisions."""
    return {(decision.model, decision.version): decision.stage for decision in decisions}
