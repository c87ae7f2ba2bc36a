"""Bradley-Terry ratings against their closed forms."""

from math import log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.ops.ratings import ELO_PER_LOGIT, bradley_terry, expected_score

counts = st.integers(1, 60)


def tables(players):
    """Scores of games in which everyone won and lost against everyone."""
    rows = st.lists(counts, min_size=players * players, max_size=players * players)
    return rows.map(lambda row: np.array(row, float).reshape(players, players) * (1 - np.eye(players)))


@given(counts, counts)
def test_two_players_are_apart_by_the_logarithm_of_wins_to_losses(wins, losses):
    scores = np.array([[0.0, wins], [losses, 0.0]])
    ratings = bradley_terry(scores, reference=1, prior=0.0)
    assert ratings.elo[0] == pytest.approx(400 * log10(wins / losses), abs=1e-6)
    assert ratings.elo[1] == 0
    share = wins / (wins + losses)
    deviation = ELO_PER_LOGIT / sqrt((wins + losses) * share * (1 - share))
    assert ratings.high[0] - ratings.elo[0] == pytest.approx(1.96 * deviation, rel=1e-6)
    assert ratings.low[1] == ratings.high[1] == 0


@given(tables(4), st.permutations(range(4)))
def test_names_do_not_matter(scores, order):
    given, other = bradley_terry(scores), bradley_terry(scores[np.ix_(order, order)])
    for mine, theirs in zip(given, other, strict=True):
        assert theirs == pytest.approx(mine[list(order)], abs=1e-6)


@given(tables(3))
def test_the_expected_scores_are_those_that_were_played(scores):
    """At the maximum every player is expected to have won as often as it did."""
    elo = bradley_terry(scores, prior=0.0).elo
    games = scores + scores.T
    expected = [sum(games[i, j] * expected_score(elo[i], elo[j]) for j in range(3) if j != i) for i in range(3)]
    assert expected == pytest.approx(scores.sum(1), rel=1e-6)
    assert elo.mean() == pytest.approx(0, abs=1e-9)


def test_draws_alone_say_that_all_are_alike():
    ratings = bradley_terry(np.array([[0.0, 5.0, 2.5], [5.0, 0.0, 1.0], [2.5, 1.0, 0.0]]))
    assert ratings.elo == pytest.approx(np.zeros(3), abs=1e-9)
    assert (ratings.high > 0).all()


def test_who_won_everything_stays_finite_and_rises_with_every_win():
    elo = [bradley_terry(np.array([[0.0, wins], [0.0, 0.0]]), reference=1).elo[0] for wins in (1, 10, 100, 1000)]
    assert np.isfinite(elo).all()
    assert elo == sorted(elo)
    assert elo[0] > 0


def test_who_never_played_has_the_widest_interval():
    scores = np.array([[0.0, 9.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    ratings = bradley_terry(scores)
    assert np.argmax(ratings.high - ratings.low) == 2


def test_more_games_of_the_same_share_make_intervals_narrower():
    scores = np.array([[0.0, 30.0], [10.0, 0.0]])
    few, many = (bradley_terry(times * scores, prior=0.0) for times in (1, 100))
    assert many.elo == pytest.approx(few.elo, abs=1e-6)
    assert (many.high - many.low) == pytest.approx((few.high - few.low) / 10, rel=1e-6)
