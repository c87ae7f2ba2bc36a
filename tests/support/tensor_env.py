"""Our own worlds stepped as tensors: the same mathematics and the same episode numbers as the NumPy vector.

Planners search with the worlds' dynamics on torch; this shows that they compute what the NumPy vector computes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.contracts import Step, World
from rlstudio.envs.seeds import episode_key, episode_words, to_uniform


class TensorEnv:
    """Every env computes its reset in every step, and a mask picks who takes it: nothing waits for a device."""

    def __init__(
        self, world: World, num_envs: int, seed: int, limit: int, dtype: torch.dtype, params: dict | None = None
    ) -> None:
        """float64 follows the NumPy vector to the last digits."""
        self._world = world
        self._p = {**world.params, **(params or {})}
        self._limit = limit
        self._key = episode_key(seed)
        self._dtype = dtype
        self._envs = torch.arange(num_envs)[:, None]
        self._draws = torch.arange(world.noise_size)
        self.episodes = torch.zeros(num_envs, dtype=torch.int64)
        self._elapsed = torch.zeros(num_envs, dtype=torch.int64)
        self._states = self._first_states()

    def reset(self) -> Tensor:
        return self._observe(self._states)

    def step(self, actions: Tensor) -> Step:
        states, rewards, terminated, _ = self._world.dynamics(self._states, actions, self._p, torch)
        elapsed = self._elapsed + 1
        truncated = elapsed >= self._limit
        ended = terminated | truncated
        self.episodes = self.episodes + ended
        self._elapsed = elapsed * ~ended
        self._states = torch.where(ended[:, None], self._first_states(), states)
        return Step(self._observe(self._states), self._observe(states), rewards.float(), terminated, truncated, {})

    def _first_states(self) -> Tensor:
        words = episode_words(self._key, self._envs, self.episodes[:, None], self._draws)
        return self._world.initial(to_uniform(words, Tensor.double), self._p, torch).to(self._dtype)

    def _observe(self, states: Tensor) -> Tensor:
        return self._world.observe(states, self._p, torch).float()
