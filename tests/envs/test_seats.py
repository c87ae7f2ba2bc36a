"""One seat for the learner, the others played inside: rows, seats, opponents' choices and exact positions."""

import numpy as np
import pytest
import torch

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.turns import decisions
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.named_players import named_player, rates_against, seated_against
from rlstudio.envs.worlds.games.board import TicTacToe
from rlstudio.envs.worlds.games.exact import at_random, outcomes, solve
from rlstudio.testing import VecEnvContract

GAME = EnvConfig(id="rlstudio/TicTacToe-v0")


def seated(num_envs, names=("random",), seed=3, cfg=GAME):
    return seated_against(make_vec_env(cfg, num_envs, seed), cfg, names, seed)


class ByPlayer:
    """A player of a seat as the one who learns, with numbers of its own."""

    acting, remembers = "none", False

    def __init__(self, name):
        self.player = named_player(name, GAME, TicTacToe.spaces, "test")
        self.generator = np.random.default_rng(0)

    def noise(self, generator, steps, num_envs):
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations, carry=None, noise=None):
        return Acted(
            self.player.choose(observations, self.generator.random((len(observations["action_mask"]), 9))), {}, None
        )


class TestSeatedVecEnv(VecEnvContract):
    part = GAME.id

    def make(self, num_envs=3, seed=7):
        return seated(num_envs, seed=seed)


def test_what_the_learner_gets_while_it_waits_belongs_to_its_last_action():
    env = seated(16, ["minimax", "random"])
    rows = decisions(Collector(env, ByPlayer("random"), Rng(0)).collect(60))
    own, ends = rows.active, rows.terminated & rows.active
    assert own.float().mean() == pytest.approx(0.5, abs=0.05)
    assert torch.equal(rows.rewards != 0, (rows.rewards != 0) & ends)  # paid only with the last action of a game
    assert (rows.rewards[ends] < 0).any()
    assert (rows.rewards[ends] > 0).any()
    # Who acts always has a choice, and acts on a board on which it is its turn.
    stones = rows.observations["observation"].sum((2, 3))[own]
    assert (rows.observations["action_mask"][own].sum(-1) > 0).all()
    assert (stones[:, 1] - stones[:, 0] >= 0).all()
    assert (stones[:, 1] - stones[:, 0] <= 1).all()


def test_chance_against_chance_fares_as_is_known_from_both_seats():
    env, agent, games = seated(64), ByPlayer("random"), 0
    observations, results = env.reset(), np.zeros((2, 3))
    while games < 4000:
        seat = env._seat.copy()
        step = env.step(agent.step(observations).actions)
        observations = step.observations
        for row in np.flatnonzero(step.terminated):
            results[seat[row], 1 - int(step.rewards[row])] += 1
            games += 1
    wins, draws, losses = outcomes(solve(TicTacToe()), at_random, at_random)
    for counts, expected in zip(results, [(wins, draws, losses), (losses, draws, wins)], strict=True):
        spread = 4 * np.sqrt(counts.sum() * np.array(expected) * (1 - np.array(expected)))
        assert (np.abs(counts - counts.sum() * np.array(expected)) < spread).all()


def test_episodes_go_through_the_opponents_and_through_the_seats():
    paid = np.array([1, -1, 0, 1, 1, -1, 1, -1])  # random and minimax in turn, each from seat 0, 1, 0, 1
    rates = rates_against(["random", "minimax"], 2, paid)
    assert rates["random/win_rate"] == 0.75
    assert rates["random/draw_rate"] == 0.25
    assert rates["random/seat_0/win_rate"] == 1.0
    assert rates["random/seat_1/draw_rate"] == 0.5
    assert rates["minimax/seat_0/loss_rate"] == 1.0
    assert rates["minimax/seat_1/win_rate"] == 0.5
    env = seated(3, ["random", "minimax"])
    env.reset()
    assert env._opponent.tolist() == [0, 1, 0]
    assert env._seat.tolist() == [0, 0, 1]


def test_agents_that_act_at_once_have_seats_too():
    cfg = EnvConfig(id="rlstudio/IPDDuel-v0", max_episode_steps=5)
    env = seated(4, cfg=cfg)
    env.reset()
    steps = [env.step(np.zeros(4, np.int64)) for _ in range(5)]
    assert all(step.active.all() for step in steps)
    assert steps[-1].truncated.all()
    assert set(np.concatenate([step.rewards for step in steps]).tolist()) == {0.0, 2.0}  # who defects never gets less


@pytest.mark.parametrize(
    ("cfg", "names", "reason"),
    [
        (EnvConfig(id="CartPole-v1"), ["random"], "eval.opponents: CartPole-v1 has one agent"),
        (GAME, ["minmax"], r"eval\.opponents: rlstudio/TicTacToe-v0 has no opponent 'minmax'; did you mean"),
        (EnvConfig(id="rlstudio/ConnectFour-v0"), ["minimax"], "known: random, tactical"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cfg, names, reason):
    with pytest.raises((ConfigError, Incompatible), match=reason):
        seated(2, names, cfg=cfg)
