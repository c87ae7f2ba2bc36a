"""What the discount of a run asks of the settings of its planner."""

from __future__ import annotations

from rlstudio.core.config import refuse
from rlstudio.planners.config import PlannerConfig, ScoreConfig


def discounted_value(planner: ScoreConfig, gamma: float) -> None:
    """A sum without an end cannot be learned."""
    if planner.value == "own" and gamma == 1.0:
        refuse(("planner", "value"), "what comes after the horizon never ends; set train.gamma below 1, say 0.99")


def one_discount(planner: PlannerConfig) -> None:
    """A plan is discounted as the rest of the run."""
    if planner.gamma != 1.0:
        refuse(("planner", "gamma"), "a plan is discounted by train.gamma; leave it out")
