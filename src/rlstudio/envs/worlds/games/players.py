"""Players that follow a rule. Each picks among equally good choices by uniform numbers [N, A] that it is given."""

from __future__ import annotations

from functools import cache
from typing import cast

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.contracts import Array, World
from rlstudio.envs.seats.player import pick
from rlstudio.envs.worlds.games.exact import solve
from rlstudio.envs.worlds.kernel import NUMPY

BOARD = "observation"
"""The entry that shows the stones."""


class Minimax:
    """Plays perfectly, by a table of all positions: at random among the best choices."""

    def __init__(self, world: World[np.ndarray]) -> None:
        self._best = _best_choices(type(world))

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        assert isinstance(observations, dict)
        return pick(self._best[_codes(observations[BOARD])], uniform)


class Tactical:
    """Looks one move ahead: wins where it can, else hinders the other from winning, else anything."""

    def __init__(self, world: World[np.ndarray]) -> None:
        self._world: World[np.ndarray] = world

    def choose(self, observations: Array, uniform: np.ndarray) -> np.ndarray:
        assert isinstance(observations, dict)
        board, allowed = observations[BOARD], observations[ACTION_MASK] != 0
        wins = self._winning(board, allowed)
        threats = self._winning(board[..., ::-1], allowed)
        return pick(allowed, uniform + 2.0 * wins + 1.0 * threats)

    def _winning(self, board: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Which choices [N, A] win at once for who has the first plane."""
        rows, choices = allowed.nonzero()
        states = states_of(board)[rows]
        after = self._world.dynamics(states, np.stack((choices, choices), -1), self._world.params, NUMPY)
        wins = np.zeros(allowed.shape, bool)
        wins[rows, choices] = after.rewards[np.arange(len(rows)), states[:, 0].astype(int) % 2] > 0
        return wins


def states_of(board: np.ndarray) -> np.ndarray:
    """The states [N, S] of a BoardGame in which the mover has the first of the planes [N, rows, columns, 2]."""
    own, other = (board[..., plane].reshape(len(board), -1).astype(float) for plane in range(2))
    moves = (own + other).sum(1, keepdims=True)
    return np.concatenate((moves, (own - other) * (1.0 - 2.0 * (moves % 2))), 1)


def _codes(board: np.ndarray) -> np.ndarray:
    """A number for each board [N, rows, columns, 2], base 3: 1 for an own stone, 2 for the other's."""
    cells = (board[..., 0] + 2 * board[..., 1]).reshape(len(board), -1).astype(np.int64)
    return cast("np.ndarray", cells @ 3 ** np.arange(cells.shape[1]))


@cache
def _best_choices(game: type[World[np.ndarray]]) -> np.ndarray:
    """The best choices [3 ** cells, A] by the code of the mover's view; all, where no position has the code."""
    levels = solve(game())
    cells = levels[0].views[BOARD][0, ..., 0].size
    table = np.ones((3**cells, levels[0].allowed.shape[1]), bool)
    for level in levels:
        table[_codes(level.views[BOARD])] = level.best()
    return table
