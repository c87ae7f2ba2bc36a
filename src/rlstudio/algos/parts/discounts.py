"""Which settings of a planner the discount of its run rules out."""

from __future__ import annotations

from rlstudio.core.config import refuse
from rlstudio.planners.config import PlannerConfig, ScoreConfig


def discounted_value(planner: ScoreConfig, gamma: float) -> None:
    """Refuse to learn the value of an undiscounted run: it is a sum without an end."""
    if planner.value == "own" and gamma == 1.0:
        refuse(("planner", "value"), "what comes after the horizon never ends; set train.gamma below 1, say 0.99")


def one_discount(planner: PlannerConfig) -> None:
    """Refuse a discount of the planner's own: plans use that of the run."""
    if planner.gamma != 1.0:
        refuse(("planner", "gamma"), "a plan is discounted by train.gamma; leave it out")
