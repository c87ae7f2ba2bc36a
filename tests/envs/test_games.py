"""Tic-tac-toe and connect four against their rules, and players against exact results."""

from functools import cache

import numpy as np
import pytest
import torch

from rlstudio.core.errors import Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.seats.player import RandomPlayer
from rlstudio.envs.worlds.games.board import DIRECTIONS, ConnectFour, TicTacToe
from rlstudio.envs.worlds.games.exact import at_random, by, every_choice, outcomes, perfectly, solve
from rlstudio.envs.worlds.games.players import BOARD, Minimax, Tactical, states_of
from rlstudio.envs.worlds.kernel import NUMPY

TIC_TAC_TOE, CONNECT_FOUR = TicTacToe(), ConnectFour()


@pytest.fixture(scope="module")
def levels():
    return solve(TIC_TAC_TOE)


def played(world, moves):
    """The transition of the last of these moves, from the start."""
    states = world.initial(np.zeros(world.noise_size), {}, NUMPY)
    after = None
    for move in moves:
        after = world.dynamics(states, np.array([move, move]), {}, NUMPY)
        states = after.states
    return after


def test_all_games_of_tic_tac_toe(levels):
    """https://en.wikipedia.org/wiki/Tic-tac-toe#Combinatorics"""
    wins, draws, losses = outcomes(levels, every_choice, every_choice)
    assert (wins, draws, losses) == (131_184, 46_080, 77_904)
    assert wins + draws + losses == 255_168
    assert sum(len(level.allowed) for level in levels) == 4_520


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def moved(board, cell):
    """The board after a move, and what the mover gets where that ended the game."""
    mark = "XO"[(9 - board.count(" ")) % 2]
    after = (*board[:cell], mark, *board[cell + 1 :])
    won = any(all(after[place] == mark for place in line) for line in LINES)
    return after, 1 if won else None if " " in after else 0


@cache
def slow_worth(board):
    """What the mover gets under best play."""
    return max(slow_worth_of(board, cell) for cell in range(9) if board[cell] == " ")


def slow_worth_of(board, cell):
    after, result = moved(board, cell)
    return -slow_worth(after) if result is None else result


@cache
def slow_outcomes(board, mover_is_perfect, other_is_perfect):
    """Wins, draws and losses of the mover, against one who is perfect too or plays at random."""
    cells = [cell for cell in range(9) if board[cell] == " "]
    if mover_is_perfect:
        cells = [cell for cell in cells if slow_worth_of(board, cell) == slow_worth(board)]
    total = np.zeros(3)
    for cell in cells:
        after, result = moved(board, cell)
        if result is None:
            total += slow_outcomes(after, other_is_perfect, mover_is_perfect)[::-1]
        else:
            total[1 - result] += 1
    return tuple(total / len(cells))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (at_random, at_random, (0.585, 0.127, 0.288)),
        (perfectly, at_random, (0.968, 0.032, 0.0)),
        (at_random, perfectly, (0.0, 0.222, 0.778)),
        (perfectly, perfectly, (0.0, 1.0, 0.0)),
    ],
)
def test_strategies_fare_as_is_known(levels, first, second, expected):
    """Three digits, and every digit by a recursion that knows nothing of arrays."""
    result = outcomes(levels, first, second)
    assert result == pytest.approx(expected, abs=6e-4)
    assert result == pytest.approx(slow_outcomes((" ",) * 9, first is perfectly, second is perfectly), abs=1e-12)


def test_both_players_are_paid_in_the_row_of_the_last_move_and_who_waits_is_not_active():
    env = make_vec_env(EnvConfig(id=TIC_TAC_TOE.id), 1, 0)
    env.reset()
    for number, move in enumerate([0, 3, 1, 4, 2]):  # the first player fills the upper row
        step = env.step(np.array([move, move]))
        assert step.active.tolist() == [number % 2 == 0, number % 2 == 1]
        assert step.terminated.tolist() == [number == 4] * 2
        assert step.rewards.tolist() == ([1.0, -1.0] if number == 4 else [0.0, 0.0])
    assert not step.observations[BOARD].any()
    assert step.successors[BOARD][1, 0].tolist() == [[0.0, 1.0]] * 3


def test_each_player_sees_its_own_stones_first_and_only_the_mover_has_choices():
    states = played(TIC_TAC_TOE, [4, 0, 8]).states
    observed = TIC_TAC_TOE.observe(states, {}, NUMPY)
    first, second = observed[BOARD]
    assert np.array_equal(first, second[..., ::-1])
    assert np.argwhere(first[..., 0]).tolist() == [[1, 1], [2, 2]]
    assert observed["action_mask"].tolist() == [[0] * 9, [0, 1, 1, 1, 0, 1, 1, 1, 0]]
    assert np.array_equal(states_of(second[None])[0], states)


@pytest.mark.parametrize("world", [TIC_TAC_TOE, CONNECT_FOUR])
def test_a_forbidden_move_loses(world):
    full = [0] if world is TIC_TAC_TOE else [0] * 6
    after = played(world, [*full, 0])
    mover = len(full) % 2
    assert after.rewards[mover] == -1
    assert after.rewards[1 - mover] == 1
    assert after.terminated.all()


def slow_has_line(board, stone, length):
    rows, columns = board.shape
    for row in range(rows):
        for column in range(columns):
            for down, right in DIRECTIONS:
                cells = [(row + k * down, column + k * right) for k in range(length)]
                if all(0 <= r < rows and 0 <= c < columns and board[r, c] == stone for r, c in cells):
                    return True
    return False


def slow_game(world, rng):
    """A random game by plain rules: the moves, and what the first player gets after each (None: it goes on)."""
    board, moves, results = np.zeros((world.rows, world.columns)), [], []
    while not results or results[-1] is None:
        stone = 1 - 2 * (len(moves) % 2)
        if world.falls:
            move = int(rng.choice(np.flatnonzero(board[0] == 0)))
            row, column = max(r for r in range(world.rows) if board[r, move] == 0), move
        else:
            move = int(rng.choice(np.flatnonzero(board.ravel() == 0)))
            row, column = divmod(move, world.columns)
        board[row, column] = stone
        moves.append(move)
        over = stone if slow_has_line(board, stone, world.line) else None if (board == 0).any() else 0
        results.append(over)
    return moves, results, board


@pytest.mark.parametrize("world", [TIC_TAC_TOE, CONNECT_FOUR])
def test_random_games_go_as_the_rules_say(world):
    rng = np.random.default_rng(3)
    for _ in range(15):
        moves, results, board = slow_game(world, rng)
        states = world.initial(np.zeros(world.noise_size), {}, NUMPY)
        for move, result in zip(moves, results, strict=True):
            states, rewards, terminated, _ = world.dynamics(states, np.array([move, move]), {}, NUMPY)
            assert terminated.tolist() == [result is not None] * 2
            assert rewards.tolist() == [result or 0, -(result or 0)]
        assert np.array_equal(states[1:].reshape(board.shape), board)


def test_every_line_of_connect_four_wins_and_no_shorter_one():
    """All 69 lines of four, and each of them without one of its stones."""
    lines = [
        [(row + k * down, column + k * right) for k in range(4)]
        for row in range(6)
        for column in range(7)
        for down, right in DIRECTIONS
        if 0 <= row + 3 * down < 6 and 0 <= column + 3 * right < 7
    ]
    assert len(lines) == 69
    boards = np.zeros((69, 5, 6, 7), bool)
    for number, line in enumerate(lines):
        for missing in range(5):
            for k, cell in enumerate(line):
                boards[number, missing][cell] = k != missing
    won = CONNECT_FOUR._has_line(boards, NUMPY)
    assert won[:, 4].all()
    assert not won[:, :4].any()
    assert np.array_equal(CONNECT_FOUR._has_line(torch.from_numpy(boards), torch).numpy(), won)


def test_connect_four_has_too_many_positions_to_be_solved(monkeypatch):
    monkeypatch.setattr("rlstudio.envs.worlds.games.exact.LARGEST", 100)
    with pytest.raises(Incompatible, match="more than 100 positions after 3 moves"):
        solve(CONNECT_FOUR)


def test_the_minimax_player_takes_each_of_the_best_choices(levels):
    player, rng = Minimax(TIC_TAC_TOE), np.random.default_rng(0)
    for level in levels:
        chosen = np.zeros(level.allowed.shape, bool)
        for _ in range(60):
            actions = player.choose(level.views, rng.random(level.allowed.shape))
            chosen[np.arange(len(actions)), actions] = True
        assert not (chosen & ~level.best()).any()
        assert chosen.sum() > 0.99 * level.best().sum()


def test_a_player_as_a_strategy_has_its_exact_results(levels):
    """The first of the best choices is perfect too: it draws against perfect play, and never loses to chance."""
    first_best = by(lambda views: Minimax(TIC_TAC_TOE).choose(views, np.full((len(views[BOARD]), 9), 0.5)))
    assert outcomes(levels, first_best, perfectly) == pytest.approx((0, 1, 0))
    assert outcomes(levels, at_random, first_best).wins == 0


def test_a_tactical_player_wins_where_it_can_and_hinders_where_it_must():
    player, uniform = Tactical(CONNECT_FOUR), np.full((1, 7), 0.5)
    for moves, expected in [([0, 6, 0, 6, 0, 6], 0), ([0, 6, 0, 6, 0], 0), ([6, 0, 6, 1, 5, 2], 3)]:
        states = played(CONNECT_FOUR, moves).states
        views = {name: rows[None, len(moves) % 2] for name, rows in CONNECT_FOUR.observe(states, {}, NUMPY).items()}
        assert player.choose(views, uniform).tolist() == [expected]


def test_chance_takes_every_allowed_choice_alike():
    views = {"action_mask": np.tile([0, 1, 0, 1, 1, 0, 0, 0, 0], (9000, 1)), BOARD: np.zeros((9000, 3, 3, 2))}
    uniform = np.random.default_rng(0).random((9000, 9))
    counts = np.bincount(RandomPlayer(TIC_TAC_TOE.spaces).choose(views, uniform), minlength=9)
    assert counts[[1, 3, 4]].sum() == 9000
    assert np.abs(counts[[1, 3, 4]] - 3000).max() < 4 * np.sqrt(2000)


@pytest.mark.parametrize(("world", "module"), [(TIC_TAC_TOE, "tictactoe_v3"), (CONNECT_FOUR, "connect_four_v3")])
def test_pettingzoos_version_agrees(world, module):
    classic = pytest.importorskip(f"pettingzoo.classic.{module}")
    theirs, rng = classic.raw_env(), np.random.default_rng(0)
    for _ in range(5):
        theirs.reset(seed=0)
        states, over = world.initial(np.zeros(world.noise_size), {}, NUMPY), False
        while not over:
            mover = int(states[0]) % 2
            ours, view = world.observe(states, {}, NUMPY), theirs.observe(theirs.agent_selection)
            assert np.array_equal(ours[BOARD][mover], view["observation"])
            assert np.array_equal(ours["action_mask"][mover], view["action_mask"])
            move = int(rng.choice(np.flatnonzero(view["action_mask"])))
            states, rewards, terminated, _ = world.dynamics(states, np.array([move, move]), {}, NUMPY)
            theirs.step(move)
            over = bool(terminated.all())
            assert over == all(theirs.terminations.values())
        assert rewards.tolist() == [theirs.rewards[name] for name in theirs.possible_agents]
