"""The iterated prisoner's dilemma against its closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.ipd.memory_one import STRATEGIES, Payoffs, best_response, strategy, trembling, value
from rlstudio.envs.worlds.ipd.population import replicator_pool
from rlstudio.envs.worlds.ipd.score import per_round
from rlstudio.envs.worlds.ipd.world import IPD, ROUNDS, IPDDuel
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.envs.worlds.team import TeamVecEnv

GAMMA, AXELROD = 0.95, Payoffs(3, 0, 5, 1)
probabilities = st.tuples(*[st.floats(0, 1)] * 5).map(np.array)


def played(world: IPD, reply: np.ndarray, episodes: int, seed: int = 0) -> np.ndarray:
    """What a certain reply to the last outcome gets per round in each of `episodes`."""
    return per_round(world, lambda history: reply[history[:, -1].argmax(-1)].astype(int), GAMMA, episodes, seed)


@pytest.mark.parametrize(
    ("opponent", "expected", "cooperates_first"),
    [
        ("always_cooperate", 5.0, False),
        ("always_defect", 1.0, False),
        ("random", 3.0, False),
        ("tit_for_tat", 3.0, True),
        ("grudger", 3.0, True),
        ("suspicious_tit_for_tat", 2.85, True),
        ("win_stay_lose_shift", 3.0513, False),
    ],
)
def test_best_responses_are_the_known_ones(opponent, expected, cooperates_first):
    best = best_response(strategy(opponent), AXELROD, GAMMA)
    assert best.value == pytest.approx(expected, abs=1e-3)
    assert best.cooperates[0] == cooperates_first


@given(probabilities)
def test_no_reply_to_the_last_outcome_beats_the_best_response(opponent):
    replies = np.array(list(np.ndindex(2, 2, 2, 2, 2)), float)
    best = best_response(opponent, AXELROD, GAMMA)
    assert value(replies, opponent, AXELROD, GAMMA).max() == pytest.approx(best.value, abs=1e-9)
    assert value(np.array(best.cooperates, float), opponent, AXELROD, GAMMA) == pytest.approx(best.value, abs=1e-9)


@given(probabilities, probabilities)
def test_what_two_strategies_get_is_a_mean_of_payoffs(one, other):
    mine, theirs = value(one, other, AXELROD, GAMMA), value(other, one, AXELROD, GAMMA)
    assert AXELROD.sucker - 1e-9 <= mine <= AXELROD.temptation + 1e-9
    assert 2 * AXELROD.punishment - 1e-9 <= mine + theirs <= 2 * AXELROD.reward + 1e-9


def test_the_population_that_is_left():
    """Nine strategies with the weights of the original experiment, and what they allow a learner."""
    payoffs = Payoffs()
    pool = replicator_pool(payoffs, GAMMA, 0.05)
    names = ["".join(str(round(entry)) for entry in row) for row in pool.strategies]
    assert names == ["11000", "11001", "11010", "11011", "10000", "01000", "00000", "11100", "01001"]
    expected = [0.2525, 0.1906, 0.1715, 0.1696, 0.0676, 0.0604, 0.0544, 0.0201, 0.0132]
    assert pool.weights == pytest.approx(expected, abs=1e-4)
    among_themselves = sum(pool.value_of(one, payoffs, GAMMA) * w for one, w in zip(*_parts(pool), strict=True))
    assert among_themselves == pytest.approx(0.543, abs=1e-3)
    assert pool.value_of(strategy("always_defect"), payoffs, GAMMA) == pytest.approx(0.513, abs=1e-3)
    assert pool.best_memory_one(payoffs, GAMMA) == pytest.approx(0.621, abs=1e-3)
    assert pool.bound(payoffs, GAMMA) == pytest.approx(0.723, abs=1e-3)


def _parts(pool):
    return pool.strategies, pool.weights


@pytest.mark.parametrize("opponent", sorted(STRATEGIES))
def test_played_games_are_worth_what_the_chain_says(opponent):
    reply, exact = strategy("win_stay_lose_shift"), 0 if opponent != "random" else 0.05
    world = IPD(opponent, payoffs=[3, 0, 5, 1], tremble=exact)
    paid = played(world, reply, 400)
    expected = value(reply, trembling(strategy(opponent), exact), AXELROD, GAMMA)
    error = 4 * paid.std() / np.sqrt(len(paid)) + 5 * 0.95**ROUNDS
    assert paid.mean() == pytest.approx(expected, abs=error)


def test_opponents_are_drawn_by_their_weights_and_their_hands_tremble():
    world, payoffs = IPD(), Payoffs()
    for reply in (strategy("grudger"), strategy("always_cooperate")):
        paid = played(world, reply, 1500, seed=1)
        expected = world.opponents.value_of(reply, payoffs, GAMMA)
        assert paid.mean() == pytest.approx(expected, abs=4 * paid.std() / np.sqrt(len(paid)))
    env = NativeVecEnv(world, 4000, 2)
    env.reset()
    met = env.position()["states"][:, 2:7]
    share = (abs(met[:, None] - world.opponents.strategies[:, [0, 1, 3, 2, 4]]).sum(-1) < 1e-9).mean(0)
    assert share == pytest.approx(world.opponents.weights, abs=4 * 0.5 / np.sqrt(4000))


def test_the_history_shows_the_last_rounds_oldest_first():
    env = NativeVecEnv(IPD("tit_for_tat", history=3, tremble=0), 1, 0)
    shown = [env.reset().copy()]
    shown.extend(env.step(np.array([action])).observations.copy() for action in (0, 1, 1, 0))
    assert [row[0].argmax(-1).tolist() for row in shown] == [[0, 0, 0], [0, 0, 3], [0, 3, 2], [3, 2, 1], [2, 1, 3]]


def test_each_learner_of_a_duel_sees_its_own_action_first():
    env = TeamVecEnv(IPDDuel(history=1), 1, 0)
    env.reset()
    step = env.step(np.array([0, 1]))
    assert step.observations[:, 0].argmax(-1).tolist() == [3, 2]
    assert step.rewards.tolist() == [2.0, -0.5]


def test_a_hand_that_always_errs_half_the_time_plays_at_random():
    env = TeamVecEnv(IPDDuel(history=1, tremble=0.5), 2000, 0)
    env.reset()
    outcomes = np.bincount(env.step(np.ones(4000, int)).observations[::2, 0].argmax(-1), minlength=5)[1:]
    assert outcomes / 2000 == pytest.approx(np.full(4, 0.25), abs=4 * 0.44 / np.sqrt(2000))


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"opponent": "tit-for-tat"}, "tit_for_tat"),
        ({"opponent": [1, 0]}, "five probabilities"),
        ({"opponent": [1, 0, 0, 0, 2]}, "five probabilities"),
        ({"payoffs": [3, 0, 3, 1]}, "temptation > reward"),
        ({"payoffs": [3, 0, 7, 1]}, "taking turns"),
        ({"payoffs": [3, 0, 5]}, "sucker"),
        ({"history": 0}, "history"),
        ({"tremble": 0.6}, "tremble"),
        ({"gamma": 1.0}, "gamma"),
    ],
)
def test_what_is_no_dilemma_is_refused(kwargs, reason):
    with pytest.raises(ValueError, match=reason):
        IPD(**kwargs)


def test_dice_of_a_pair_are_even_and_forget():
    from rlstudio.envs.worlds import dice
    from rlstudio.envs.worlds.kernel import NUMPY

    pair = dice.first_pair(np.random.default_rng(0).random((200, 2)), NUMPY)
    throws = []
    for _ in range(500):
        pair = dice.roll_pair(pair, NUMPY)
        throws.append(dice.unit_of_pair(pair))
    rolls = np.array(throws)
    counts = np.histogram(rolls, 20, (0, 1))[0]
    assert abs(counts / rolls.size * 20 - 1).max() < 0.06
    assert abs(np.corrcoef(rolls[:-1].ravel(), rolls[1:].ravel())[0, 1]) < 0.015
    after_small = rolls[1:][rolls[:-1] < 0.05]
    assert after_small.mean() == pytest.approx(0.5, abs=4 * 0.29 / np.sqrt(after_small.size))


def test_it_is_made_by_its_id():
    assert make_world("rlstudio/IPD-v0", {"opponent": "grudger"}).agents == 1
    assert make_world("rlstudio/IPDDuel-v0", {}).agents == 2
