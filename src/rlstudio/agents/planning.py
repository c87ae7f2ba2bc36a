"""PlanningAgent: acts by searching ahead in a model, for every step anew, from where the last plan stopped.

The warm start is carry, so evaluation cannot touch training. Without noise from outside each plan has numbers by the
age of its episode, which is carried too: the same observation and carry give the same action.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from rlstudio.agents.agent import Agent
from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Acted, Array, Carried, Metrics, NoiseBlock, Planner, Score
from rlstudio.core.contracts.planning import AGE
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces, describe


class PlanningAgent(Agent):
    """Takes the first action of a plan, which is made anew at every step."""

    acting = "planner"
    remembers = True

    def __init__(
        self, planner: Planner, score: Score, spaces: Spaces, model: nn.Module | None = None, device: str = "cpu"
    ) -> None:
        """`model` is what was learned of all that it plans with, on `device`."""
        if ActionMask.of(spaces) is not None:
            raise Incompatible(
                "a planner knows no action mask, and would search forbidden choices; use ppo, a2c, dqn or qrdqn"
            )
        if not isinstance(spaces.observation, Box):
            raise Incompatible(f"a planner needs numbers to start from; the env shows {describe(spaces.observation)}")
        self.spaces = spaces
        self.planner = planner
        self.score = score
        self.model = model
        self.device = device
        self._mask = None
        if isinstance(spaces.action, Box):
            self._low, self._high = spaces.action.bounds()

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        drawn = _Noise(self.planner, int(generator.integers(2**63)), num_envs, self.device)
        return cast("NoiseBlock", drawn)  # tensors on the planner's device: only `step` below reads them

    def step(
        self, observations: Array, carry: Carried | None = None, noise: np.ndarray | Tensor | None = None
    ) -> Acted:
        assert isinstance(observations, np.ndarray)
        observed = torch.from_numpy(np.ascontiguousarray(observations, np.float32)).to(self.device)
        ages = np.zeros(len(observed), np.int64) if carry is None else carry[AGE]
        numbers = self.planner.noise.at_ages(ages) if noise is None else torch.as_tensor(noise)
        before = (
            None if carry is None else {name: torch.as_tensor(part).to(self.device) for name, part in carry.items()}
        )
        planned = self.planner.plan(observed, self.score, before, numbers.to(self.device))
        after = {name: part.numpy(force=True) for name, part in planned.carry.items()}
        return Acted(self._actions(planned.actions.cpu()), {}, {**after, AGE: ages + 1})

    def plan_metrics(self, observations: Tensor, generator: np.random.Generator) -> Metrics:
        """The mean metrics of plans from these observations [E, O]."""
        noise = self.planner.noise(generator, len(observations))
        planned = self.planner.plan(observations, self.score, None, noise.to(observations.device))
        return {name: row.mean() for name, row in planned.metrics.items()}

    def _actions(self, planned: Tensor) -> np.ndarray:
        if not isinstance(self.spaces.action, Box):
            return planned.numpy()
        inside = self._low + (planned.numpy().reshape(-1, *self._low.shape) + 1.0) * (0.5 * (self._high - self._low))
        clipped: np.ndarray = np.clip(inside, self._low, self._high)
        return clipped.astype(self._low.dtype, copy=False)


class _Noise:
    """Noise of each step when it is asked for: a whole block of it would be large."""

    def __init__(self, planner: Planner, seed: int, num_envs: int, device: str) -> None:
        self._planner, self._seed, self._num_envs, self._device = planner, seed, num_envs, device

    def __getitem__(self, step: int) -> Tensor:
        return self._planner.noise(np.random.default_rng([self._seed, step]), self._num_envs, self._device)
