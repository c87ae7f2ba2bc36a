"""A vector of environments one of which lies after some steps: what it returns is not what happened.

rewards    ten times as large
permuted   the numbers of each observation in another order, always the same
shuffled   observations of other moments, in any order
repeated   what it gave before, again from the start
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstudio.core.contracts import Step, VecEnv

LIES = ("rewards", "permuted", "shuffled", "repeated")


class LyingEnvs:
    """Observations are arrays; the liar is environment `liar`, from its step `after` on."""

    def __init__(self, env: VecEnv, liar: int, lie: str, after: int = 1000) -> None:
        self._env, self._liar, self._lie, self._after = env, liar, lie, after
        self._given: list[tuple[Any, ...]] = []  # while it told the truth: what follows a step, row by row
        self._steps = 0
        self._rng = np.random.default_rng(liar)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: np.ndarray) -> Step:
        step = self._env.step(actions)
        self._steps += 1
        columns = {name: np.array(getattr(step, name)) for name in FIELDS}
        if self._steps <= self._after:
            self._given.append(tuple(columns[name][self._liar].copy() for name in FIELDS))
            return step
        getattr(self, f"_{self._lie}")(columns)
        return step._replace(**columns)

    def _rewards(self, columns: dict[str, np.ndarray]) -> None:
        columns["rewards"][self._liar] *= 10

    def _permuted(self, columns: dict[str, np.ndarray]) -> None:
        for name in ("observations", "successors"):
            columns[name][self._liar] = np.roll(columns[name][self._liar], 1)

    def _shuffled(self, columns: dict[str, np.ndarray]) -> None:
        for name in ("observations", "successors"):
            columns[name][self._liar] = self._given[self._rng.integers(len(self._given))][FIELDS.index(name)]
        if not (columns["terminated"][self._liar] or columns["truncated"][self._liar]):
            columns["successors"][self._liar] = columns["observations"][self._liar]

    def _repeated(self, columns: dict[str, np.ndarray]) -> None:
        given = self._given[(self._steps - self._after - 1) % len(self._given)]
        for name, value in zip(FIELDS, given, strict=True):
            columns[name][self._liar] = value


FIELDS = ("observations", "successors", "rewards", "terminated", "truncated")
