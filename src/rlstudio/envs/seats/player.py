"""Whoever sits on a seat beside the learner, and the one that every environment has: chance."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Spaces


class SeatPlayer(Protocol):
    """Pure: the same observations and numbers give the same choices, row by row."""

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        """Choices [N] for observations of N rows; `uniform` [N, A] are random numbers in (0, 1), one per choice."""
        ...


class RandomPlayer:
    """Any allowed choice, all alike."""

    def __init__(self, spaces: Spaces) -> None:
        self._mask = ActionMask.of(spaces)

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        return uniform.argmax(-1) if self._mask is None else pick(self._mask.allowed(observations), uniform)


def pick(allowed: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The allowed choice [N] of the highest rank [N, A]; with uniform numbers for ranks, one of them at random."""
    return cast("np.ndarray", np.where(allowed, ranks, -1.0).argmax(-1))
