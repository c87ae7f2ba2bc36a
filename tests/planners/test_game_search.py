"""Tree search in games: values change sign with the mover, forbidden choices stay out, and it finds what is best."""

import numpy as np
import pytest
import torch

from rlstudio.core.model.policies import Categorical
from rlstudio.envs.worlds.games.board import ConnectFour, TicTacToe
from rlstudio.envs.worlds.games.exact import solve
from rlstudio.envs.worlds.kernel import NUMPY
from rlstudio.planners.games import GameDynamics, SearchPlayer, TurnGame

TIC_TAC_TOE, CONNECT_FOUR = TicTacToe(), ConnectFour()


@pytest.fixture(scope="module")
def levels():
    return solve(TIC_TAC_TOE)


def view_after(world, moves):
    """What the mover sees after these moves."""
    states = world.initial(np.zeros((1, 1)), {}, NUMPY)
    for move in moves:
        states = world.dynamics(states, np.array([[move, move]]), {}, NUMPY).states
    return {name: rows[:, len(moves) % 2] for name, rows in world.observe(states, {}, NUMPY).items()}


def share_of_best(player, level, every):
    """Of every so many positions of a level, in how many it takes a best choice."""
    views = {name: rows[::every] for name, rows in level.views.items()}
    actions = player.choose(views, np.full((len(views["action_mask"]), 9), 0.5))
    return level.best()[::every][np.arange(len(actions)), actions].mean()


def test_search_alone_plays_late_positions_perfectly(levels):
    """Without a network: where at most three cells are empty, 30 simulations find a best choice."""
    player = SearchPlayer(TIC_TAC_TOE, 30, None, None, greedy=True)
    for level in levels[6:]:
        assert share_of_best(player, level, every=12) == 1


def test_more_simulations_play_better(levels):
    players = [SearchPlayer(TIC_TAC_TOE, simulations, None, None, greedy=True) for simulations in (2, 16, 60)]
    shares = [share_of_best(player, levels[5], every=20) for player in players]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


def alike(views):
    return Categorical(torch.zeros(len(views["action_mask"]), 9))


def test_forbidden_choices_are_never_taken(levels):
    player, rng = SearchPlayer(TIC_TAC_TOE, 12, alike, None), np.random.default_rng(0)
    for level in levels[::3]:
        views = {name: rows[:60] for name, rows in level.views.items()}
        actions = player.choose(views, rng.uniform(1e-6, 1, views["action_mask"].shape))
        assert level.allowed[np.arange(len(actions)), actions].all()


def test_a_perfect_value_makes_a_short_search_perfect(levels):
    """One look at every choice is enough where the value is right: its sign is that of who moves next."""
    worth = {
        row.tobytes(): level.worth[n].max() for level in levels for n, row in enumerate(level.views["observation"])
    }

    def value(views):
        return torch.tensor([float(worth.get(board.tobytes(), 0.0)) for board in views["observation"].numpy()])

    player = SearchPlayer(TIC_TAC_TOE, 9, None, value, greedy=True)
    for level in (levels[0], levels[2], levels[5]):
        assert share_of_best(player, level, every=20) == 1


@pytest.mark.parametrize(
    ("moves", "expected"), [([3, 0, 3, 0, 3, 0], [3]), ([3, 0, 3, 0, 3], [3]), ([2, 0, 3, 0], [1, 4])]
)
def test_connect_four_wins_hinders_and_forks(moves, expected):
    """Three in a column are finished or stopped; two side by side with room on both sides become three."""
    player = SearchPlayer(CONNECT_FOUR, 120, None, None, greedy=True)
    assert player.choose(view_after(CONNECT_FOUR, moves), np.full((1, 7), 0.5)).item() in expected


def test_what_the_model_shows_is_what_the_mover_sees():
    assert isinstance(TIC_TAC_TOE, TurnGame)
    dynamics, views = GameDynamics(TIC_TAC_TOE), view_after(TIC_TAC_TOE, [4, 0, 8])
    states = torch.from_numpy(TIC_TAC_TOE.states_of(views)).float()
    rows = dynamics.observe(dynamics.start(states, 2))
    assert rows.shape == (1, 1, 2, 27)
    for name, entry in dynamics.entries(rows[0, :, 0]).items():
        assert np.array_equal(entry.numpy(), views[name])
