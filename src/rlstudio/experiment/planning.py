"""Another planner for a trained agent, with its own policy and value as a help: in the model it learned itself or that
another agent learned, otherwise in the equations of its world.

planner = planning_agent(loaded.agent, loaded.cfg, ["kind=mppi", "horizon=20"])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rlstudio.agents.agent import Agent
from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.config import apply_overrides, parse
from rlstudio.core.contracts import Dynamics
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Space
from rlstudio.envs.analytic import dynamics_of
from rlstudio.experiment.config import ExperimentConfig
from rlstudio.models.bounds import Bounds
from rlstudio.models.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.denoiser import DiffusionModel
from rlstudio.models.distributions import Categorical, Gaussian, Policy, SquashedGaussian
from rlstudio.models.dynamics import LearnedDynamics
from rlstudio.models.planning import PlanningModel
from rlstudio.models.policies import PolicyOnly, PolicyValue
from rlstudio.models.q_values import QuantileValue, QValue
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.guide import Acting

Q_TEMPERATURE = 0.1
"""Of the softmax that makes a policy of Q, in units of the spread of a state's values."""


def planning_agent(
    agent: Agent,
    experiment: ExperimentConfig,
    settings: Sequence[str],
    *,
    modeller: Agent | None = None,
    reward_scale: float = 1.0,
) -> PlanningAgent:
    """`settings` are overrides of the planner's own: kind=mppi, horizon=20. The discount is that of the training.
    `modeller` is an agent that learned a model of the same world; `reward_scale` is what rewards were divided by in
    training, which the agent's value is still divided by."""
    document = apply_overrides({"gamma": experiment.train.gamma}, settings, "planner")
    cfg = parse(PlannerConfig, document)
    dynamics = _dynamics(agent, experiment) if modeller is None else _learned(modeller, agent)
    planner = build_planner(cfg, agent.spaces.action, policy_of(agent.model, agent.spaces.action))
    score = build_score(cfg, dynamics, experiment.env.id, gamma=cfg.gamma, own=value_of(agent.model, reward_scale))
    return PlanningAgent(planner, score, agent.spaces)


def _dynamics(agent: Agent, experiment: ExperimentConfig) -> Dynamics:
    if isinstance(agent, PlanningAgent):
        return agent.score.dynamics
    return dynamics_of(experiment.env)


def _learned(modeller: Agent, agent: Agent) -> Dynamics:
    if not (isinstance(modeller, PlanningAgent) and isinstance(modeller.score.dynamics, LearnedDynamics)):
        raise Incompatible("--dynamics: that run learned no model of its world; mbmpc and diffusion can")
    if modeller.spaces != agent.spaces:
        raise Incompatible(f"--dynamics: that run's world is another: {modeller.spaces}; this one is {agent.spaces}")
    return modeller.score.dynamics


def value_of(model: object, scale: float = 1.0) -> Callable[[Tensor], Tensor] | None:
    """What a Model thinks is still to come, times `scale`; None where it has no opinion of its own."""
    match model:
        case PolicyValue():
            return lambda observations: model.value(observations) * scale
        case PlanningModel() | DiffusionModel():
            return model.value
        case QValue() | QuantileValue():
            return lambda observations: _choice_values(model, observations).amax(-1)
    return None


def policy_of(model: object, actions: Space) -> Acting | None:
    """What a Model would do, in the units of a plan; None where it cannot be told from an observation alone."""
    match model:
        case PlanningModel():
            return model.policy
        case PolicyOnly():
            return _scaled(model.policy, Bounds(actions)) if isinstance(actions, Box) else model.policy
        case SquashedPolicy():
            return lambda observations: _unscaled(model(observations))
        case DeterministicPolicy():
            return lambda observations: _certain(model.bounds.unit(model(observations)))
        case QValue() | QuantileValue():
            return lambda observations: _ranked(_choice_values(model, observations))
    return None


def _scaled(policy: Acting, bounds: Bounds) -> Acting:
    """Of a policy over the environment's numbers: a plan counts in [-1, 1]."""

    def act(observations: Tensor) -> Policy:
        found = policy(observations)
        assert isinstance(found, Gaussian)
        return Gaussian(bounds.unit(found.mean), found.log_std - bounds.scale.log())

    return act


def _unscaled(policy: SquashedGaussian) -> SquashedGaussian:
    return policy._replace(scale=torch.ones_like(policy.scale), shift=torch.zeros_like(policy.shift))


def _certain(actions: Tensor) -> Gaussian:
    return Gaussian(actions, torch.full_like(actions, -torch.inf))


def _ranked(values: Tensor) -> Categorical:
    """Values of choices as a softmax whose temperature means the same in every task."""
    best = values.amax(-1, keepdim=True)
    spread = (best - values.amin(-1, keepdim=True)).clamp(min=1e-6)
    return Categorical((values - best) / (spread * Q_TEMPERATURE))


def _choice_values(model: QValue | QuantileValue, observations: Tensor) -> Tensor:
    """[..., A] for any leading dimensions."""
    values = model.values(observations.reshape(-1, observations.shape[-1]))
    return values.view(*observations.shape[:-1], -1)
