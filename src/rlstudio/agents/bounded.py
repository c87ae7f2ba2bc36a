"""BoundedAgent: acts with a squashed or deterministic policy, whose actions fill the bounds and never leave them.

With noise a squashed policy samples; a deterministic one does the same thing every time, and the Collector explores.
"""

from __future__ import annotations

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.held_noise import HeldNoise
from rlstudio.agents.kernels import acting_kernel
from rlstudio.core.contracts import Acted, Array, Carried, Model, NoiseBlock
from rlstudio.core.spaces import Box, Spaces
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.continuous import LOG_STD_RANGE


class BoundedAgent(Agent):
    rule = "bounded"

    def __init__(self, model: Model, spaces: Spaces) -> None:
        super().__init__(model, spaces)
        assert isinstance(spaces.action, Box)
        self._outputs = acting_kernel(model)
        self.acting = self._outputs.name
        rule = model.action_rule()
        self._samples = rule.samples
        self._held = None if rule.state_noise is None else HeldNoise(rule.state_noise)
        self._size = spaces.action.size
        self._low, self._high = spaces.action.bounds()
        bounds = Bounds(spaces.action)
        self._scale, self._shift = bounds.scale.numpy(), bounds.shift.numpy()

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        if not self._samples:
            return super().noise(generator, steps, num_envs)
        if self._held is not None:
            return self._held.draw(generator, steps, num_envs)
        return generator.standard_normal((steps, num_envs, self._size), np.float32)

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        if noise is None or not self._samples:
            raw = self.deciding(observations)
        elif self._held is not None:
            mean, hidden = self._outputs.with_hidden(observations)
            raw = mean + self._held(hidden, noise)
        else:
            outputs, lowest, highest = self._outputs(observations), *LOG_STD_RANGE
            mean, log_std = outputs[..., : self._size], outputs[..., self._size :]
            # One row: `np.clip` and `np.split` would cost more than all the arithmetic.
            raw = mean + np.exp(np.minimum(np.maximum(log_std, lowest), highest)) * noise
        actions = np.tanh(raw) * self._scale + self._shift
        # Rounding may step over a bound by a bit.
        inside = np.minimum(np.maximum(actions, self._low), self._high)
        return Acted(inside.astype(self._low.dtype, copy=False), {}, carry)

    def deciding(self, observations: Array, carry: Carried | None = None) -> np.ndarray:
        return self._outputs(observations)[:, : self._size]
