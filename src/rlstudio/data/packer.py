"""Packer: the preallocated [T, B] block that a rollout is written into, one row per vector step.

Each column is one torch tensor with a NumPy view of the same memory: the acting path writes NumPy, learning reads
torch, nothing is copied. A rollout is valid until the next one is collected into the same block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Acted, Array, Step
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces

Write = Callable[[int, Array], None]


class Packer:
    def __init__(self, spaces: Spaces, steps: int, num_envs: int) -> None:
        self.steps = steps
        lead = (steps, num_envs)
        self.tensors: dict[str, Column] = {
            "observations": _allocate(spaces.observation, lead),
            "actions": _allocate(spaces.action, lead),
            "rewards": torch.zeros(lead),
            "terminated": torch.zeros(lead, dtype=torch.bool),
            "truncated": torch.zeros(lead, dtype=torch.bool),
            "next_observations": _allocate(spaces.observation, lead),
        }
        self.arrays: dict[str, Array] = {
            name: {k: v.numpy() for k, v in column.items()} if isinstance(column, dict) else column.numpy()
            for name, column in self.tensors.items()
        }
        self._put_observations = _writer(self.arrays["observations"])
        self._put_successors = _writer(self.arrays["next_observations"])
        self.batch = Batch(lead=2, **self.tensors)
        self._actions, self.rewards, self.terminated, self.truncated = (
            column.numpy()
            for name in ("actions", "rewards", "terminated", "truncated")
            if isinstance(column := self.tensors[name], Tensor)
        )

    def write_before(self, t: int, observations: Array, acted: Acted) -> None:
        """What was seen and done at step t; called before the environment reuses its arrays."""
        self._put_observations(t, observations)
        self._actions[t] = acted.columns.get("actions", acted.actions)

    def write_after(self, t: int, step: Step) -> None:
        """What came of it."""
        self._put_successors(t, step.successors)
        self.rewards[t] = step.rewards
        self.terminated[t] = step.terminated
        self.truncated[t] = step.truncated


def _allocate(space: Space, lead: tuple[int, int]) -> Column:
    if isinstance(space, Dict):
        return {name: _leaf(entry, lead) for name, entry in space.items()}
    return _leaf(space, lead)


def _leaf(space: Leaf, lead: tuple[int, int]) -> Tensor:
    return torch.zeros((*lead, *space.shape), dtype=getattr(torch, space.dtype))


def _writer(block: Array) -> Write:
    if isinstance(block, dict):
        entries = block

        def write_entries(t: int, value: Array) -> None:
            for name, array in entries.items():
                array[t] = value[name]

        return write_entries
    array: np.ndarray = block

    def write(t: int, value: Array) -> None:
        array[t] = value

    return write
