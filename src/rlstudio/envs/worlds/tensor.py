"""Our own worlds as tensors on a device: the same mathematics and the same episode numbers as the NumPy vector.

Nothing in a step waits for the device: every env computes its reset, and a mask picks who takes it. So a step is a
fixed list of tensor operations that a CUDA graph can record. It pays from thousands of envs on; for few the NumPy
vector is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rlstudio.core.contracts import State, Step
from rlstudio.core.errors import Incompatible
from rlstudio.envs.seeds import episode_key, episode_words, to_uniform
from rlstudio.envs.worlds.native import World

NEVER = 2**62  # a limit no episode reaches


class TensorVecEnv:
    """A VecEnv whose arrays are tensors; each Step has tensors of its own."""

    vectorization = "tensor"
    exact: str | None = None
    restarted: Sequence[int] = ()

    def __init__(
        self,
        world: World,
        num_envs: int,
        seed: int,
        limit: int | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """float32 is what devices are fast at; float64 follows the NumPy vector to the last digits."""
        self.spaces = world.spaces
        self.num_envs = num_envs
        self._world = world
        self._limit = limit or world.limit or NEVER
        self._key = episode_key(seed)
        self._dtype = dtype
        self._device = torch.device(device)
        self._envs = torch.arange(num_envs, device=device)[:, None]
        self._draws = torch.arange(world.noise_size, device=device)
        self._episodes = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._elapsed = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._states = self._first_states(self._episodes)

    def reset(self) -> Tensor:
        self._episodes = torch.zeros_like(self._episodes)
        self._elapsed = torch.zeros_like(self._elapsed)
        self._states = self._first_states(self._episodes)
        return self._observe(self._states)

    def step(self, actions: Tensor) -> Step:
        states, rewards, terminated = self._world.dynamics(self._states, actions, torch)
        elapsed = self._elapsed + 1
        truncated = elapsed >= self._limit
        ended = terminated | truncated
        self._episodes = self._episodes + ended
        self._elapsed = elapsed * ~ended
        self._states = torch.where(ended[:, None], self._first_states(self._episodes), states)
        observations, successors = self._observe(self._states), self._observe(states)
        return Step(observations, successors, rewards.float(), terminated, truncated, {})

    def _first_states(self, episodes: Tensor) -> Tensor:
        uniform = to_uniform(episode_words(self._key, self._envs, episodes[:, None], self._draws), Tensor.double)
        first: Tensor = self._world.initial(uniform, torch).to(self._dtype)
        return first

    def _observe(self, states: Tensor) -> Tensor:
        shown: Tensor = self._world.observe(states, torch)
        return shown.float()

    def position(self) -> State:
        return {
            "kind": "state",
            "world": self._world.id,
            "states": self._states.cpu().numpy().copy(),
            "episodes": self._episodes.cpu().numpy().copy(),
            "elapsed": self._elapsed.cpu().numpy().copy(),
        }

    def seek(self, position: State) -> Tensor:
        if position.get("kind") != "state" or position.get("world") != self._world.id:
            raise Incompatible(f"a position of {position.get('world')} does not fit the world {self._world.id}")
        if len(position["episodes"]) != self.num_envs:
            raise Incompatible(f"a position of {len(position['episodes'])} envs does not fit {self.num_envs}")

        def placed(value: Any, dtype: torch.dtype) -> Tensor:
            return torch.as_tensor(value, dtype=dtype, device=self._device).clone()

        self._states = placed(position["states"], self._dtype)
        self._episodes = placed(position["episodes"], torch.int64)
        self._elapsed = placed(position["elapsed"], torch.int64)
        return self._observe(self._states)

    def close(self) -> None:
        """Nothing to release: the tensors go with the object."""
