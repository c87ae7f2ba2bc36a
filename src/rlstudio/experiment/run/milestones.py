"""What a session stores of its own in a checkpoint: the best evaluation, the step to roll back to, the final one."""

from __future__ import annotations

from typing import Any, TypedDict

from rlstudio.core.contracts import State

Best = TypedDict("Best", {"step": int, "return": float, "epoch": int})


class Final(TypedDict):
    epoch: int
    summary: dict[str, Any]  # the fields of a Summary


class Milestones:
    def __init__(self) -> None:
        self.best: Best | None = None  # the best evaluation during training
        self.good_step: int | None = None  # the last point a diverged run may go back to
        self.final: Final | None = None  # the evaluation after training, once it is done

    def state_dict(self) -> State:
        return {"best": self.best, "good_step": self.good_step, "final": self.final}

    def load_state_dict(self, state: State) -> None:
        self.best, self.good_step, self.final = state["best"], state["good_step"], state["final"]

    def keeps(self) -> set[int]:
        """Steps whose checkpoints must stay."""
        steps = [self.good_step, None if self.best is None else int(self.best["step"])]
        return {step for step in steps if step is not None}
