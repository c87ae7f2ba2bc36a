"""Carry: what travels with an environment from step to step (recurrent state, planner warm start), as an agent sees it.

It is None, an array or tensor with a row per environment, or a dict, list or tuple of these. No carry is None, and the
row of a fresh episode is zero.
"""

from __future__ import annotations

import copy
from typing import Protocol, TypeVar, cast

import numpy as np

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
