"""What is exported of an agent that plans: one plan as a module of plain operations.

    forward(observations, *carry, noise) -> (actions, *carry)

The search draws nothing by itself: the numbers it tries sequences with are an input, so the same numbers give the same
plan in every program. Shapes depend on the settings alone, and the batch is one observation. That this plans as the
agent does is checked at each export.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box
from rlstudio.delivery.ports import Port, observation_ports
from rlstudio.delivery.spec import ActingFacts, NoiseFacts
from rlstudio.models.perceptron import plain_parts
from rlstudio.planners.diffusion import DiffusionPlanner
from rlstudio.planners.noise import Noise
from rlstudio.planners.search import Search


def facts_of(agent: PlanningAgent) -> ActingFacts:
    """What it carries, by planning once, and the noise that it plans with."""
    noise = agent.planner.noise
    if not isinstance(noise, Noise):
        raise Incompatible(
            f"a {type(agent.planner).__name__} says nothing of the shape of its noise, so no other program can plan"
            " with it; give it a rlstudio.planners.noise.Noise"
        )
    assert isinstance(agent.spaces.observation, Box)  # or it would not plan
    carry = agent.step(np.zeros((1, *agent.spaces.observation.shape), np.float32)).carry or {}
    shapes = {part: rows.shape[1:] for part, rows in carry.items()}
    whole = frozenset(part for part, rows in carry.items() if rows.dtype.kind == "i")
    return ActingFacts(carry=shapes, whole=whole, noise=NoiseFacts(noise.kind, noise.shape))


class DeployedPlan(nn.Module):
    """One plan."""

    rows: int | None = 1  # a search follows its shapes too deeply for a batch that is not known

    def __init__(self, agent: PlanningAgent) -> None:
        super().__init__()
        refuse_graph(agent)
        facts, spaces = facts_of(agent), agent.spaces
        self.agent, self.spaces = deepcopy(agent), spaces
        self.inputs: tuple[Port, ...] = facts.inputs(spaces)
        self.outputs: tuple[Port, ...] = facts.outputs(spaces)
        self.observations, self.carry = observation_ports(spaces.observation), facts.graph_carry
        self.model = self.agent.model
        plain_parts(self.model)
        self.eval()
        self.requires_grad_(False)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        observations, *held, noise = inputs
        carry = {port.part: rows for port, rows in zip(self.carry, held, strict=True)}
        planned = self.agent.planner.plan(observations.float(), self.agent.score, carry, noise)
        return self._actions(planned.actions), *(planned.carry[port.part] for port in self.carry)

    def _actions(self, planned: Tensor) -> Tensor:
        """In the environment's own numbers."""
        space = self.spaces.action
        if not isinstance(space, Box):
            start = getattr(space, "start", 0)
            return planned + start if start else planned
        low, high = (torch.tensor(side) for side in space.bounds())
        inside = low + (planned.reshape(-1, *low.shape) + 1.0) * (0.5 * (high - low))
        return torch.minimum(torch.maximum(inside.to(low.dtype), low), high)


def refuse_graph(agent: PlanningAgent) -> None:
    """Incompatible, with the reason, where no graph can hold a plan of this kind."""
    planner, reason = agent.planner, ""
    if isinstance(planner, DiffusionPlanner):
        if planner.cfg.guidance:
            reason = "guidance follows the gradient of the return while it plans, and a graph has no gradients"
    elif not isinstance(planner, Search):
        reason = f"a {type(planner).__name__} decides from step to step where to look next"
    if reason:
        raise Incompatible(f"--format: no graph can hold this plan: {reason}; export it with --format bundle")
