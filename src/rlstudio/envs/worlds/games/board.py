"""Tic-tac-toe and connect four: two players by turns, and who first has a line of own stones wins.

    action: tic-tac-toe the cell (row * 3 + column), connect four the column, in which a stone falls to the ground
    rewards: 1 for the winner and -1 for the loser, whose last own action that ended; a draw pays nothing
    observation: {observation: [rows, columns, 2] own stones and the other's, action_mask: what the mover may choose}

Row 0 is the top. Each player sees its own stones first, so one policy plays both seats; who waits has an empty mask.
A forbidden move loses the game. Layout and numbering are those of PettingZoo's `tictactoe_v3` and `connect_four_v3`.
State [moves so far, cells]: a cell is 1 of the first player, -1 of the second, 0 if empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.core.contracts import Transition, World
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.envs.seats.player import SeatPlayer
from rlstudio.envs.worlds.games.players import BOARD, Minimax, Tactical, states_of

Players = Mapping[str, Callable[[World[np.ndarray]], SeatPlayer]]
"""Players that a World brings for its seats, by name: what makes one of the World."""

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""Of a line: rows down and columns to the right for each further stone."""


def board_spaces(rows: int, columns: int, choices: int) -> Spaces:
    mask = Box((choices,), "uint8", (0.0,), (1.0,))
    board = Box((rows, columns, 2), "float32", (0.0,), (1.0,))
    return Spaces(Dict(((ACTION_MASK, mask), (BOARD, board))), Discrete(choices))


class BoardGame:
    """What both games share; a game says how large its board is, how long a line, and whether stones fall."""

    spaces: Spaces
    state_size: int
    noise_size = 1  # every game starts alike; the noise only has the leading dimensions
    limit: int | None = None
    agents = 2
    params: Mapping[str, float] = {}

    rows: int
    columns: int
    line: int
    falls: bool

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        empty = xp.zeros_like(noise[..., 0])
        return xp.stack((empty,) * self.state_size, -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        moves, board = states[..., 0], self._board(states, xp)
        second = self.is_seconds_turn(states)
        stone = 1.0 - 2.0 * second
        placed = self._open_cells(board, xp) & self._chosen(xp.where(second, actions[..., 1], actions[..., 0]), xp)
        legal = xp.any(xp.any(placed, -1), -1)
        board = board + placed * stone[..., None, None]
        moves = moves + legal
        won = legal & self._has_line(board == stone[..., None, None], xp)
        over = won | ~legal | (moves == self.rows * self.columns)
        for_mover = won * 1.0 - ~legal * 1.0
        rewards = xp.stack((for_mover * stone, -for_mover * stone), -1)
        following = xp.concatenate((moves[..., None], *(board[..., row, :] for row in range(self.rows))), -1)
        return Transition(following, rewards, xp.stack((over, over), -1), xp.stack((~second, second), -1))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> dict[str, AnyArray]:
        board = self._board(states, xp)
        first, second = (board == 1.0) * 1.0, (board == -1.0) * 1.0
        views = (xp.stack(planes, -1) for planes in ((first, second), (second, first)))
        allowed, is_seconds = self._allowed(board, xp), self.is_seconds_turn(states)[..., None]
        masks = xp.stack((allowed & ~is_seconds, allowed & is_seconds), -2)
        return {ACTION_MASK: masks * 1, BOARD: xp.stack(tuple(views), -4)}

    def is_seconds_turn(self, states: AnyArray) -> AnyArray:
        """[...] bool: whether the second player moves."""
        return states[..., 0] % 2 == 1

    def states_of(self, views: Mapping[str, np.ndarray]) -> np.ndarray:
        """The states [N, S] in which a mover sees these, for players that look ahead."""
        return states_of(views[BOARD])

    def _board(self, states: AnyArray, xp: Namespace) -> AnyArray:
        """Cells [..., rows, columns]."""
        starts = (1 + row * self.columns for row in range(self.rows))
        return xp.stack(tuple(states[..., start : start + self.columns] for start in starts), -2)

    def _open_cells(self, board: AnyArray, xp: Namespace) -> AnyArray:
        """Where the next stone could lie: empty cells, and where stones fall only those with ground below."""
        empty = board == 0.0
        if not self.falls:
            return empty
        ground = xp.concatenate((~empty[..., 1:, :], xp.ones_like(empty[..., :1, :])), -2)
        return empty & ground

    def _chosen(self, choice: AnyArray, xp: Namespace) -> AnyArray:
        """The cells that a choice means: one, or a column [..., 1, columns]."""
        if self.falls:
            return (xp.arange(self.columns, device=choice.device) == choice[..., None])[..., None, :]
        cell = xp.arange(self.rows * self.columns, device=choice.device) == choice[..., None]
        starts = (row * self.columns for row in range(self.rows))
        return xp.stack(tuple(cell[..., start : start + self.columns] for start in starts), -2)

    def _allowed(self, board: AnyArray, xp: Namespace) -> AnyArray:
        """Which choices the mover has [..., choices]."""
        if self.falls:
            return board[..., 0, :] == 0.0
        return xp.concatenate(tuple(board[..., row, :] for row in range(self.rows)), -1) == 0.0

    def _has_line(self, mine: AnyArray, xp: Namespace) -> AnyArray:
        """Whether a line of `line` cells is all True, anywhere on boards [..., rows, columns]."""
        reach = self.line - 1
        result = xp.zeros_like(mine[..., 0, 0])
        for down, right in DIRECTIONS:
            height, width = self.rows - reach * down, self.columns - reach * abs(right)
            whole = xp.ones_like(mine[..., :height, :width])
            for step in range(self.line):
                top, left = step * down, step * right if right >= 0 else reach - step
                whole = whole & mine[..., top : top + height, left : left + width]
            result = result | xp.any(xp.any(whole, -1), -1)
        return result


class TicTacToe(BoardGame):
    """Tic-tac-toe: three in a row on a board of three by three. Perfect play draws."""

    id = "rlstudio/TicTacToe-v0"
    rows = columns = line = 3
    falls = False
    spaces = board_spaces(3, 3, 9)
    state_size = 1 + 9
    players: Players = {"minimax": Minimax, "tactical": Tactical}


class ConnectFour(BoardGame):
    """Connect four: four in a row on six rows of seven columns, where stones fall. The first player can force a win."""

    id = "rlstudio/ConnectFour-v0"
    rows, columns, line = 6, 7, 4
    falls = True
    spaces = board_spaces(6, 7, 7)
    state_size = 1 + 42
    players: Players = {"tactical": Tactical}
