"""Packer: the preallocated [T, B] block that a rollout is written into, one row per vector step.

Each column is one torch tensor with a NumPy view of the same memory: the acting path writes NumPy, learning reads
torch, nothing is copied. A rollout is valid until the next one is collected into the same block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Acted, Array, Carried, State, Step
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces
from rlstudio.data.collect.carry_columns import CarryColumns


class Packer:
    """Steps of all environments as one block; of environments that say so with `active` (a transition is here). Where
    keys of the infos are kept it has `info`, a column per key, NaN where an environment did not give that one. With a
    recurrent agent it also has `carry` and `resets` (`CarryColumns`)."""

    def __init__(self, spaces: Spaces, steps: int, num_envs: int) -> None:
        lead = (steps, num_envs)
        rewards = torch.zeros(lead)
        terminated, truncated = torch.zeros(lead, dtype=torch.bool), torch.zeros(lead, dtype=torch.bool)
        infos = {key: torch.zeros(lead) for key in spaces.infos}
        self._batch = Batch(
            lead=2,
            observations=_allocate(spaces.observation, lead),
            actions=_allocate(spaces.action, lead),
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            next_observations=_allocate(spaces.observation, lead),
            info=infos or None,
        )
        self._observations, self._actions = self._batch.array("observations"), self._batch.array("actions")
        self.successors = self._batch.array("next_observations")
        self.rewards, self.terminated, self.truncated = rewards.numpy(), terminated.numpy(), truncated.numpy()
        self.infos = {key: column.numpy() for key, column in infos.items()}
        self.active: np.ndarray | None = None  # where a transition is, if that is not everywhere
        self._carry: CarryColumns | None = None

    def write_before(self, t: int, observations: Array, acted: Acted) -> None:
        """What was seen and done at step t; called before the environment reuses its arrays."""
        if t == 0 and (lost := acted.columns.keys() - {"actions"}):  # an agent gives the same ones at every step
            raise Incompatible(
                f"Acted.columns: {min(lost)!r} would be lost, a rollout keeps only `actions` of them; leave it out"
            )
        _write(self._observations, t, observations)
        _write(self._actions, t, acted.columns.get("actions", acted.actions))

    def write_carry(self, t: int, carry: Carried | None, after: Carried) -> None:
        """What the agent remembered before step t (None: nothing at all), and for its shape what it did after."""
        if self._carry is None:
            self._add_carry(after)
        assert self._carry is not None
        self._carry.write(t, carry)

    def _add_carry(self, like: Carried) -> None:
        self._carry = CarryColumns(self.rewards.shape, like)
        self._batch = self._batch.with_(carry=self._carry.columns, resets=self._carry.resets)

    def write_after(self, t: int, step: Step) -> None:
        """What came of it."""
        _write(self.successors, t, step.successors)
        self.rewards[t] = step.rewards
        self.terminated[t] = step.terminated
        self.truncated[t] = step.truncated
        for key, numbers in self.infos.items():
            numbers[t] = step.infos[key]
        if step.active is not None:
            self._write_active(t, step.active)

    def _write_active(self, t: int, active: np.ndarray) -> None:
        if self.active is None:
            column = torch.ones(self.rewards.shape, dtype=torch.bool)
            self.active = column.numpy()
            self._batch = self._batch.with_(active=column)
        self.active[t] = active

    def write_columns(self, first: int, columns: Mapping[str, Any]) -> None:
        """A whole block of the environments from `first` on, as `columns` gave it in another process."""
        if "carry" in columns and self._carry is None:
            like = {name: np.zeros((1, *part.shape[2:])) for name, part in columns["carry"].items()}
            self._add_carry(like)
        for name, part in columns.items():
            own = self._batch.array(name)
            parts = part.items() if isinstance(part, Mapping) else ((None, part),)
            for key, rows in parts:
                array = own if key is None else own[key]
                assert isinstance(array, np.ndarray)
                array[:, first : first + rows.shape[1]] = rows

    def columns(self) -> State:
        """What is written, by the names of the Batch, for `write_columns`."""
        return {name: self._batch.array(name) for name in self._batch.names if name != "resets"}

    def batch(self) -> Batch:
        """The whole block."""
        if self._carry is not None:
            self._carry.close(self._batch.dones)
        return self._batch


def _allocate(space: Space, lead: tuple[int, int]) -> Column:
    if isinstance(space, Dict):
        return {name: _leaf(entry, lead) for name, entry in space.items()}
    return _leaf(space, lead)


def _leaf(space: Leaf, lead: tuple[int, int]) -> Tensor:
    return torch.zeros((*lead, *space.shape), dtype=getattr(torch, space.dtype))


def _write(block: Array, t: int, values: Array) -> None:
    if isinstance(block, dict):
        for name, array in block.items():
            array[t] = values[name]
    else:
        block[t] = values
