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
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces

Write = Callable[[int, Array], None]


class Packer:
    """Steps of all environments as one block; of environments that say so with `active` (a transition is here). Where
    keys of the infos are kept it has `info`, a column per key, NaN where an environment did not give that one. With a
    recurrent agent it also has `carry` (before the step) and `resets` (an episode starts here); the first row never
    resets: its stored carry is fresh already where it should be."""

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
        infos = {key: torch.zeros(lead) for key in spaces.infos}
        if infos:
            self.tensors["info"] = infos
        self.infos = {key: column.numpy() for key, column in infos.items()}
        self.arrays: dict[str, Array] = {
            name: {k: v.numpy() for k, v in column.items()} if isinstance(column, dict) else column.numpy()
            for name, column in self.tensors.items()
        }
        self._put_observations = _writer(self.arrays["observations"])
        self._put_successors = _writer(self.arrays["next_observations"])
        self._put_carry: Write | None = None
        self.active: np.ndarray | None = None  # where a transition is, if that is not everywhere
        self._batch = Batch(lead=2, infos=None, **self.tensors)
        self._actions, self.rewards, self.terminated, self.truncated = (
            column.numpy()
            for name in ("actions", "rewards", "terminated", "truncated")
            if isinstance(column := self.tensors[name], Tensor)
        )

    def write_before(self, t: int, observations: Array, acted: Acted) -> None:
        """What was seen and done at step t; called before the environment reuses its arrays."""
        if t == 0 and (lost := acted.columns.keys() - {"actions"}):  # an agent gives the same ones at every step
            raise Incompatible(
                f"Acted.columns: {min(lost)!r} would be lost, a rollout keeps only `actions` of them; leave it out"
            )
        self._put_observations(t, observations)
        self._actions[t] = acted.columns.get("actions", acted.actions)

    def write_carry(self, t: int, carry: Array | None, after: dict[str, np.ndarray]) -> None:
        """What the agent remembered before step t (None: nothing at all), and for its shape what it did after."""
        if self._put_carry is None:
            lead = self._actions.shape[:2]
            columns = {name: torch.zeros((*lead, *rows.shape[1:])) for name, rows in after.items()}
            self._resets = torch.zeros(lead, dtype=torch.bool)
            self._put_carry = _writer({name: column.numpy() for name, column in columns.items()})
            self._batch = self._batch.with_(carry=columns, resets=self._resets)
        self._put_carry(t, {name: np.zeros_like(rows) for name, rows in after.items()} if carry is None else carry)

    def write_after(self, t: int, step: Step) -> None:
        """What came of it."""
        self._put_successors(t, step.successors)
        self.rewards[t] = step.rewards
        self.terminated[t] = step.terminated
        self.truncated[t] = step.truncated
        for key, numbers in self.infos.items():
            numbers[t] = step.infos[key]
        if step.active is not None:
            self._write_active(t, step.active)

    def _write_active(self, t: int, active: np.ndarray) -> None:
        if self.active is None:
            column = torch.ones(self._actions.shape[:2], dtype=torch.bool)
            self.active = column.numpy()
            self._batch = self._batch.with_(active=column)
        self.active[t] = active

    def batch(self) -> Batch:
        """The whole block."""
        if self._put_carry is not None:
            self._resets[1:] = self._batch.dones[:-1]
        return self._batch


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
