"""Carry: what travels with an environment from step to step (recurrent state, planner warm start), as an agent sees it,
and the columns that a rollout keeps it in.

It is None, an array or tensor with a row per environment, or a dict, list or tuple of these. No carry is None, and the
row of a fresh episode is zero.
"""

from __future__ import annotations

import copy
from typing import Protocol, TypeVar, cast

import numpy as np
import torch

from rlstudio.core.contracts import Carried

C = TypeVar("C")


class _Rows(Protocol):
    def __setitem__(self, rows: np.ndarray, value: int, /) -> None: ...


def without_rows(carry: C, envs: np.ndarray) -> C:
    """A carry in which these environments start afresh."""
    return cast("C", _without_rows(carry, envs))


def _without_rows(carry: object, envs: np.ndarray) -> object:
    if carry is None:
        return None
    if isinstance(carry, dict):
        return {name: _without_rows(part, envs) for name, part in carry.items()}
    if isinstance(carry, list | tuple):
        return type(carry)(_without_rows(part, envs) for part in carry)
    fresh = cast("_Rows", copy.deepcopy(carry))  # an agent may hand out its own buffer; arrays and tensors alike
    fresh[envs] = 0
    return fresh


class CarryColumns:
    """Of a block [T, B]: `carry`, what the agent remembered before each step, and `resets`, where an episode starts.
    The first row never resets: its stored carry is fresh already where it should be."""

    def __init__(self, lead: tuple[int, ...], like: Carried) -> None:
        """`like`: rows of all environments in the shapes that the agent remembers."""
        self.columns = {name: torch.zeros((*lead, *rows.shape[1:])) for name, rows in like.items()}
        self.resets = torch.zeros(lead, dtype=torch.bool)
        self._arrays = {name: column.numpy() for name, column in self.columns.items()}

    def write(self, t: int, carry: Carried | None) -> None:
        """None: nothing was remembered at all."""
        for name, array in self._arrays.items():
            array[t] = 0 if carry is None else carry[name]

    def close(self, dones_TB: torch.Tensor) -> None:
        """The block is full: a row resets where the one before it ended an episode."""
        self.resets[1:] = dones_TB[:-1]
