"""GridLevels: mazes of graded difficulty on one board, most of them no use; the parameter `level` chooses the maze.

    board 9x9, start (0, 0), actions up, down, left, right (walls and the rim stop you)
    level k has w walls across the board, in rows 1, 3, ...: each has one gap, and the goal lies behind the last
    w = 0 for the first `trivial` levels, then 1, 2, 3, 4, 1, 2, ...
    in the last `impossible` levels the wall before the goal has no gap
    reward 1 on reaching the goal, which ends the episode, and -0.01 per step; truncated after 100 steps

Gaps and goals follow from k by arithmetic on whole numbers below 2^24, the same in NumPy and torch. `level: -1`, the
default, draws the level of each episode from all of them alike. State [row, column, goal row, goal column, walls];
observation one-hot of the walker and of the goal, and the walls.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.kernel import one_hot

STEP_REWARD, GOAL_REWARD = -0.01, 1.0
PRIME, LEVEL_FACTOR, ROW_FACTOR = 4093, 1207, 1713


class GridLevels:
    """Walk through the gaps of up to four walls to the goal behind them."""

    id = "rlstudio/GridLevels-v0"
    noise_size = 1
    limit: int | None = 100
    agents = 1
    params: Mapping[str, float] = {"level": -1.0}

    def __init__(self, levels: int = 64, trivial: int = 48, size: int = 9, impossible: int = 0) -> None:
        if size < 5 or size % 2 == 0:
            raise ValueError(f"size must be odd and at least 5, got {size}")
        if not 0 <= trivial <= levels <= PRIME or levels < 1:
            raise ValueError(f"levels must be from 1 to {PRIME}, and trivial no more; got {levels} and {trivial}")
        if not 0 <= impossible <= levels - trivial:
            raise ValueError(f"impossible must be from 0 to levels - trivial = {levels - trivial}, got {impossible}")
        self.levels = levels
        self.trivial = trivial
        self.impossible = impossible
        self.size = size
        self.most_walls = size // 2
        self.state_size = 4 + size * size
        self.spaces = Spaces(Box((3 * size * size,), "float32", (0.0,), (1.0,)), Discrete(4))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        drawn = xp.floor(noise[..., 0] * self.levels)
        given = xp.zeros_like(drawn) + p["level"]
        level = xp.where(given < 0, drawn, xp.floor(given))
        walls = self._walls(level)
        corner = xp.zeros_like(level)
        goal_row = walls * 2.0
        near = self._digit(level, goal_row, self.size - 1) + 1.0  # never on the start
        goal_column = xp.where(walls == 0, near, self._digit(level, goal_row, self.size))
        place = xp.stack((corner, corner, goal_row, goal_column), -1)
        return xp.concatenate((place, self._board(level, walls, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        last = self.size - 1
        row, column, board = states[..., 0], states[..., 1], states[..., 4:]
        to_row = xp.clip(row + (actions == 1) * 1.0 - (actions == 0) * 1.0, 0, last)
        to_column = xp.clip(column + (actions == 3) * 1.0 - (actions == 2) * 1.0, 0, last)
        target = self._cell(to_row, to_column, xp)
        blocked = xp.any((target * board) > 0, -1)
        row, column = xp.where(blocked, row, to_row), xp.where(blocked, column, to_column)
        reached = (row == states[..., 2]) & (column == states[..., 3])
        following = xp.concatenate((xp.stack((row, column), -1), states[..., 2:]), -1)
        return Transition(following, reached * GOAL_REWARD + STEP_REWARD, reached)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        walker = self._cell(states[..., 0], states[..., 1], xp)
        goal = self._cell(states[..., 2], states[..., 3], xp)
        return xp.concatenate((walker, goal, states[..., 4:]), -1)

    def _walls(self, level: AnyArray) -> AnyArray:
        """How many there are."""
        return (level >= self.trivial) * ((level - self.trivial) % self.most_walls + 1.0)

    def _digit(self, level: AnyArray, row: AnyArray, n: int) -> AnyArray:
        """A whole number below n that looks drawn."""
        return ((level + 1) * LEVEL_FACTOR % PRIME + row * ROW_FACTOR) % PRIME % n

    def _board(self, level: AnyArray, walls: AnyArray, xp: Namespace) -> AnyArray:
        """1 where there is a wall, 0 elsewhere [..., cells]."""
        cell = xp.arange(self.size * self.size, device=level.device) * 1.0
        row, column = xp.floor(cell / self.size), cell % self.size
        gap = self._digit(level[..., None], row, self.size)
        is_impossible = (level >= self.levels - self.impossible) & (level < self.levels)
        closed = is_impossible[..., None] & (row == walls[..., None] * 2.0 - 1.0)
        return (row % 2 == 1) * 1.0 * (row < walls[..., None] * 2.0) * ((column != gap) | closed)

    def _cell(self, row: AnyArray, column: AnyArray, xp: Namespace) -> AnyArray:
        return one_hot(row * self.size + column, self.size * self.size, xp)
