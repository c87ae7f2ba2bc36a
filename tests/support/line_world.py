"""A world for planners whose plans can be worked out by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.contracts import Outcome


class Line:
    """A walk on a line: state x, action -1..1 is added; reward is -|x| after the step; ends beyond `goal`."""

    reward_range: tuple[float, float] | None = None

    def __init__(self, goal: float = 1e9, particles: int = 1, reward: float | None = None) -> None:
        self.goal, self.particles, self.reward = goal, particles, reward

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        return observations[None, :, None].expand(self.particles, len(observations), candidates, 1)

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        offsets = torch.arange(self.particles, dtype=states.dtype).view(-1, 1, 1, 1)
        following = states + actions + offsets * 0.1
        rewards = -following[..., 0].abs() if self.reward is None else torch.full_like(following[..., 0], self.reward)
        return Outcome(following, rewards, (following[..., 0] < self.goal).to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        return states
