"""Acting with state-dependent exploration: the random matrix of each environment, and what it does to an action."""

from __future__ import annotations

import numpy as np

from rlstudio.core.model.layers import StateNoise


class HeldNoise:
    """A block of noise has a matrix per environment for each `hold` steps, so noise stays a function of the step."""

    def __init__(self, std: StateNoise) -> None:
        self.std = std

    def draw(self, generator: np.random.Generator, steps: int, num_envs: int) -> list[np.ndarray]:
        """[num_envs, H, D] for each of `steps` steps, the same array while it is held."""
        hold = self.std.hold
        shape = (-(-steps // hold), num_envs, *self.std.log_std.shape)
        matrices = generator.standard_normal(shape, np.float32)
        return [matrices[step // hold] for step in range(steps)]

    def __call__(self, hidden: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """What is added to the mean, [num_envs, D]."""
        weights = noise * self.std.log_std.detach().exp().numpy(force=True)
        pushed: np.ndarray = np.matmul(hidden[:, None, :], weights)
        return pushed[:, 0]
