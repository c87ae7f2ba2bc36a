"""Carry: what travels with an environment from step to step (recurrent state, planner warm start), as an agent sees it.

It is None, an array or tensor with a row per environment, or a dict, list or tuple of these. No carry is None, and the
row of a fresh episode is zero.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


def without_rows(carry: Any, envs: np.ndarray) -> Any:
    """A carry in which these environments start afresh."""
    if carry is None:
        return None
    if isinstance(carry, dict):
        return {name: without_rows(part, envs) for name, part in carry.items()}
    if isinstance(carry, list | tuple):
        return type(carry)(without_rows(part, envs) for part in carry)
    fresh = copy.deepcopy(carry)  # an agent may hand out its own buffer; arrays and tensors alike
    fresh[envs] = 0
    return fresh
