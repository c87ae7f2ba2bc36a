"""The pool: scores, who is met how often, who leaves."""

import numpy as np
import pytest

from rlstudio.experiment.self_play.pool import LEARNER, OpponentPool


def with_snapshots(shares, games=100):
    """A pool with a snapshot for each share of games that the learner wins against it."""
    pool = OpponentPool([0], size=8)
    for number in range(len(shares)):
        pool.add(1000 + number)
    for number, share in enumerate(shares):
        for game in range(games):
            pool.record(1000 + number, 1.0 if game < share * games else 0.0)
    return pool


@pytest.mark.parametrize(
    ("prioritise", "expected"),
    [("hard", [(1 - p) ** 2 for p in (0.2, 0.5, 0.9)]), ("even", [p * (1 - p) for p in (0.2, 0.5, 0.9)]),
     ("uniform", [1, 1, 1])],
)  # fmt: skip
def test_snapshots_are_met_by_how_hard_they_are(prioritise, expected):
    chances = with_snapshots([0.2, 0.5, 0.9], games=10_000).chances(prioritise)
    assert chances == pytest.approx(np.array(expected) / np.sum(expected), abs=1e-3)


def test_without_games_all_are_met_alike():
    assert with_snapshots([0.5, 0.5], games=0).chances("hard") == pytest.approx([0.5, 0.5])
    assert len(OpponentPool([0], 4).chances("hard")) == 0


def test_the_oldest_leaves_but_nobody_who_is_in_play():
    pool = OpponentPool([0], size=2)
    assert [pool.add(1000 + number) for number in range(2)] == [[], []]
    assert pool.add(1002, in_play={1000}) == [1001]
    assert pool.snapshots == [1000, 1002]
    assert pool.add(1003, in_play={1000, 1002}) == []
    assert pool.add(1004) == [1000, 1002]
    assert pool.snapshots == [1003, 1004]
    assert pool.scores.shape == (len(pool.members),) * 2 == (4, 4)


def test_a_snapshot_begins_with_half_of_the_learners_games():
    pool = OpponentPool([0, 1], size=4)
    for score in (1.0, 1.0, 0.5, 0.0):
        pool.record(1, score)
    pool.add(1000)
    assert pool.members == [LEARNER, 0, 1, 1000]
    assert pool.scores[0].tolist() == pool.scores[3].tolist() == [0.0, 0.0, 1.25, 0.0]
    assert pool.scores[:, 0].tolist() == pool.scores[:, 3].tolist() == [0.0, 0.0, 0.75, 0.0]
    learner, _, other, snapshot = pool.ratings().elo
    assert learner == pytest.approx(snapshot)
    assert learner > other


def test_a_state_is_taken_up():
    pool, other = with_snapshots([0.2, 0.9], games=10), OpponentPool([0], size=8)
    other.load_state_dict(pool.state_dict())
    assert other.members == pool.members
    assert np.array_equal(other.scores, pool.scores)
