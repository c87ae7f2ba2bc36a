"""A planner for an agent that was trained without one: the equations of its world, its own value as what comes after.

planner = planning_agent(loaded.agent, loaded.cfg, ["kind=mppi", "horizon=20"])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rlstudio.agents.agent import Agent
from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.config import apply_overrides, parse
from rlstudio.envs.analytic import analytic_dynamics
from rlstudio.experiment.config import ExperimentConfig
from rlstudio.models.policies import PolicyValue
from rlstudio.models.q_values import QuantileValue, QValue
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import Score


def planning_agent(agent: Agent, experiment: ExperimentConfig, settings: Sequence[str]) -> PlanningAgent:
    """`settings` are overrides of the planner's own: kind=mppi, horizon=20. The discount is that of the training."""
    document = apply_overrides({"gamma": experiment.train.gamma}, settings, "planner")
    cfg = parse(PlannerConfig, document)
    dynamics = analytic_dynamics(experiment.env.id, dict(experiment.env.kwargs))
    score = Score(dynamics, gamma=cfg.gamma, value=value_of(agent.model))
    return PlanningAgent(build_planner(cfg, agent.spaces.action), score, agent.spaces)


def value_of(model: object) -> Callable[[Tensor], Tensor] | None:
    """What a Model thinks is still to come; None where it has no opinion of its own."""
    match model:
        case PolicyValue():
            return lambda observations: _rows(model.value, observations)
        case QValue() | QuantileValue():
            return lambda observations: _rows(lambda rows: model.values(rows).amax(-1), observations)
    return None


@torch.no_grad()
def _rows(value: Callable[[Tensor], Tensor], observations: Tensor) -> Tensor:
    """Any leading dimensions [P, E, K, O] as rows."""
    lead = observations.shape[:-1]
    return value(observations.reshape(-1, observations.shape[-1]).float()).view(lead)
