"""The table of the prisoner's dilemma: seeds count once, and what is wanted is what is exactly possible."""

import pytest
from benchmarks.ipd import CASES, config, current, limits, rows
from benchmarks.learning import stated

BY_NAME = {case.opponent: case for case in CASES}


def line(opponent, seed, per_round, now=None):
    identity = now or stated(config(BY_NAME[opponent]))
    return {"case": opponent, "seed": seed, "identity": identity, "per_round": per_round, "env_steps": 1000}


@pytest.mark.parametrize(
    ("opponent", "bound"), [("tit_for_tat", 3.0), ("always_defect", 1.0), ("always_cooperate", 5.0)]
)
def test_a_single_opponent_is_answered_within_two_percent(opponent, bound):
    assert limits(BY_NAME[opponent]) == pytest.approx((0.98 * bound, bound))


def test_against_the_pool_more_than_a_reply_to_the_last_round_is_wanted():
    assert limits(BY_NAME["pool"]) == pytest.approx((0.621, 0.723), abs=1e-3)


def test_a_seed_counts_once_and_another_config_does_not():
    stored = [line("pool", 0, 0.6), line("pool", 0, 0.65), line("pool", 1, 0.65, now="other"), line("grudger", 1, 3.0)]
    assert {seed: entry["per_round"] for seed, entry in current(BY_NAME["pool"], stored).items()} == {0: 0.65}


def test_the_table_says_how_many_seeds_got_more_than_is_wanted():
    (row,) = rows([line("pool", 0, 0.65), line("pool", 1, 0.61)])
    assert row[1:] == ["1,000", "0.650, 0.610", "0.630", "0.621", "1 of 2", "0.723"]
