"""Whoever sits on a seat beside the learner, and the one that every environment has: chance."""

from __future__ import annotations

from typing import Protocol, cast, runtime_checkable

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Array
from rlstudio.core.errors import EnvFault, raised
from rlstudio.core.spaces import Discrete, Spaces


@runtime_checkable
class SeatPlayer(Protocol):
    """Pure: the same observations and numbers give the same choices, row by row."""

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        """Choices [N] for observations of N rows; `uniform` [N, A] are random numbers in (0, 1), one per choice."""
        ...


class CheckedPlayer:
    """A player of somebody else: what it does wrong is said of it, and no choice is taken that is none."""

    def __init__(self, inner: SeatPlayer, name: str, spaces: Spaces) -> None:
        assert isinstance(spaces.action, Discrete)
        self._inner, self._name, self._choices = inner, name, spaces.action.n
        self._mask = ActionMask.of(spaces)

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        try:
            chosen = np.asarray(self._inner.choose(observations, uniform))
        except Exception as error:
            raise EnvFault(f"{self._name} raised {raised(error)}") from error
        if chosen.shape != (len(uniform),) or chosen.dtype.kind not in "iu":
            raise EnvFault(
                f"{self._name} chose {chosen.dtype}{list(chosen.shape)}, not a whole number for each of"
                f" {len(uniform)} observations"
            )
        rows = np.arange(len(chosen))
        wrong = (chosen < 0) | (chosen >= self._choices)
        if self._mask is not None and not wrong.any():
            wrong = ~self._mask.allowed(observations)[rows, chosen]
        if wrong.any():
            choice = chosen[wrong.argmax()]
            raise EnvFault(f"{self._name} chose {choice}, which is not allowed; there are 0 to {self._choices - 1}")
        return chosen


class RandomPlayer:
    """Any allowed choice, all alike."""

    def __init__(self, spaces: Spaces) -> None:
        self._mask = ActionMask.of(spaces)

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        return uniform.argmax(-1) if self._mask is None else pick(self._mask.allowed(observations), uniform)


def pick(allowed: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The allowed choice [N] of the highest rank [N, A]; with uniform numbers for ranks, one of them at random."""
    return cast("np.ndarray", np.where(allowed, ranks, -1.0).argmax(-1))
