"""PolicyAgent: acts with the policy of a Model, recurrent ones included.

With noise it samples, without it takes the mode: `argmax(logits + Gumbel noise)` is an exact sample of the softmax, and
`mean + std * normal` one of the Gaussian. Gaussian actions are clipped to the bounds for the environment; learning sees
the unclipped ones (column `actions`), whose log-probability the policy knows. Choices that an action mask forbids are
never taken.
"""

from __future__ import annotations

import numpy as np

from rlstudio.agents.agent import ValuingAgent
from rlstudio.agents.held_noise import HeldNoise
from rlstudio.agents.kernels import acting_kernel
from rlstudio.agents.memory_kernels import memory_kernel
from rlstudio.core.contracts import Acted, Array, Carried, Model, NoiseBlock
from rlstudio.core.spaces import Box, MultiDiscrete, Spaces


class PolicyAgent(ValuingAgent):
    """Acts with a policy: greedily by its mode, or with noise by a sample."""

    rule = "policy"

    def __init__(self, model: Model, spaces: Spaces) -> None:
        super().__init__(model, spaces)
        self.remembers = bool(model.carry_shapes())
        if self.remembers:
            self._recall = memory_kernel(model)
            self.acting = self._recall.name
        else:
            self._outputs = acting_kernel(model)
            self.acting = self._outputs.name
        if isinstance(spaces.action, MultiDiscrete):
            self._splits = np.cumsum(spaces.action.nvec)[:-1]
        if isinstance(spaces.action, Box):
            self._low, self._high = spaces.action.bounds()
        rule = model.action_rule()
        self._width, self._log_std = rule.outputs, rule.log_std
        self._held = None if rule.state_noise is None else HeldNoise(rule.state_noise)

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        if self._held is not None:
            return self._held.draw(generator, steps, num_envs)
        shape = (steps, num_envs, self._width)
        if isinstance(self.spaces.action, Box):
            return generator.standard_normal(shape, np.float32)
        # The open interval keeps both logarithms finite.
        uniform = generator.random(shape, np.float32) * (1 - 2e-7) + 1e-7
        gumbel: np.ndarray = -np.log(-np.log(uniform))
        return gumbel

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        if self._held is not None and noise is not None:
            mean, hidden = self._outputs.with_hidden(observations)
            actions = mean + self._held(hidden, noise)
            return Acted(self._bounded(actions), {"actions": actions}, carry)
        if self.remembers:
            outputs, carry = self._recall(observations, carry)
        else:
            outputs = self._outputs(observations)
        space = self.spaces.action
        if isinstance(space, Box):
            if noise is None:
                return Acted(self._bounded(outputs), {}, carry)
            assert self._log_std is not None
            std = self._log_std.detach().exp().cpu().numpy()
            actions = outputs + std * noise
            return Acted(self._bounded(actions), {"actions": actions}, carry)
        outputs = self.permitted(outputs, observations)
        if noise is not None:
            outputs = outputs + noise
        if isinstance(space, MultiDiscrete):
            choices = [part.argmax(-1) for part in np.split(outputs, self._splits, axis=-1)]
            return Acted(np.stack(choices, -1), {}, carry)
        return Acted(outputs.argmax(-1), {}, carry)

    def deciding(self, observations: Array, carry: Carried | None = None) -> np.ndarray:
        outputs = self._recall(observations, carry)[0] if self.remembers else self._outputs(observations)
        return self.permitted(outputs, observations)

    def _bounded(self, actions: np.ndarray) -> np.ndarray:
        """Actions inside the space, in its dtype: what the environment is given."""
        clipped: np.ndarray = np.clip(actions, self._low, self._high)
        return clipped.astype(self._low.dtype, copy=False)
