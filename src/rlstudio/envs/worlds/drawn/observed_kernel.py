"""A kernel that shows parameters behind what the World shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Space
from rlstudio.envs.params.observed import ENTRY
from rlstudio.envs.worlds.kernel import Kernel, Refreshed, empty_rows


class ObservedKernel:
    """`columns` are arrays [B] that change at resets only, so they are written when an env is placed."""

    def __init__(self, kernel: Kernel, space: Space, columns: Sequence[np.ndarray]) -> None:
        self._kernel, self._columns = kernel, columns
        self.rewards, self.terminated, self.active = kernel.rewards, kernel.terminated, kernel.active
        self.observations = empty_rows(space, self.rewards.shape)
        if isinstance(self.observations, dict):
            self._numbers = self.observations[ENTRY]
            self._rows: Array = {name: rows for name, rows in self.observations.items() if name != ENTRY}
        else:
            self._numbers = self.observations[..., -len(columns) :]
            self._rows = self.observations[..., : -len(columns)]

    def advance(self, actions: np.ndarray) -> None:
        self._kernel.advance(actions)
        self.active = self._kernel.active
        self._copy(slice(None))

    def states(self) -> np.ndarray:
        return self._kernel.states()

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        self._kernel.place(envs, states)
        self._copy(envs)
        for place, column in enumerate(self._columns):
            numbers = column[envs]
            self._numbers[envs, ..., place] = numbers if self._numbers.ndim == 2 else numbers[:, None]

    def refresh(self) -> None:
        if isinstance(self._kernel, Refreshed):
            self._kernel.refresh()

    def _copy(self, envs: np.ndarray | slice) -> None:
        theirs = self._kernel.observations
        if isinstance(theirs, dict):
            assert isinstance(self._rows, dict)
            for name, rows in self._rows.items():
                rows[envs] = theirs[name][envs]
        else:
            assert isinstance(self._rows, np.ndarray)
            self._rows[envs] = theirs[envs]
