"""What the metrics of updates say: faults are found, and numbers as heavy-tailed as those of healthy runs are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstudio.experiment.judging.incidents import Symptom
from rlstudio.experiment.judging.update_watch import LARGEST_KL, OF_LAST, UpdateWatch

USUAL = {
    "clip_fraction": 0.1,
    "entropy": 0.5,
    "explained_variance": 0.9,
    "grad_norm": 1.0,
    "kl": 0.01,
    "loss": 2.0,
    "q": 10.0,
}
NAMES = [*USUAL]


def row(**changes: float) -> list[float]:
    return [{**USUAL, **changes}[name] for name in NAMES]


def watched(*rows: list[float], updates: int = 40, **options: object) -> list[Symptom]:
    watch = UpdateWatch(gamma=0.99, choices=True)
    assert not list(watch.judge(NAMES, [row()] * updates, largest_reward=1.0))
    return list(watch.judge(NAMES, rows, largest_reward=1.0))


def rules(symptoms: list[Symptom]) -> set[str]:
    return {symptom.rule for symptom in symptoms}


def test_heavy_tailed_numbers_that_grow_with_the_return_are_healthy() -> None:
    rng = np.random.default_rng(0)
    watch = UpdateWatch(gamma=0.99, choices=True)
    for step in range(4000):
        size = float(np.exp(0.8 * rng.standard_normal()) * (1 + step / 200))
        entropy = 0.6 * math.exp(-step / 300) * float(rng.uniform(0.3, 1))
        values = row(loss=size, grad_norm=size, kl=min(0.03 * size, 0.2), q=step / 50, entropy=entropy)
        assert not list(watch.judge(NAMES, [values], largest_reward=1.0)), step


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"q": 500.0}, "q_scale"),
        ({"q": -500.0}, "q_scale"),
    ],
)
def test_one_update_is_enough(changes: dict[str, float], rule: str) -> None:
    assert rules(watched(row(**changes))) == {rule}


@pytest.mark.parametrize("team", ["", "blue/"])
def test_the_kl_of_a_planner_is_no_distance_between_policies(team: str) -> None:
    watch = UpdateWatch(gamma=0.99)
    assert not list(watch.judge([f"{team}kl", "clip_fraction" if team else "loss"], [[2.0, 1.0]] * 3, 1.0))
    found = watch.judge([f"{team}clip_fraction", f"{team}kl"], [[0.9, 2.0]] * 3, 1.0)
    assert rules(list(found)) == {"kl"}


def test_a_policy_that_moves_too_far_is_told_at_the_third_time() -> None:
    far = row(kl=2 * LARGEST_KL)
    assert not watched(far, row(), far)
    assert rules(watched(far, row(), far, far)) == {"kl"}


def test_a_spike_counts_once_it_is_the_third_of_the_last_updates() -> None:
    high = row(loss=1e4)
    assert not watched(high, row(), high)
    assert rules(watched(high, row(), high, row(), high)) == {"spike"}
    assert not watched(high, high, *[row()] * OF_LAST, high)
    assert "2 was usual" in watched(high, high, high)[0].what


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_counts_alike(value: float) -> None:
    bad = row(loss=value, grad_norm=value)
    assert not watched(bad, row(), bad)
    assert rules(watched(bad, row(), bad, bad)) == {"not_finite"}


def test_statistics_begin_anew_where_rewards_grow() -> None:
    watch = UpdateWatch(gamma=None)
    list(watch.judge(NAMES, [row()] * 40, 1.0))
    watch.begin_anew()
    assert not list(watch.judge(NAMES, [row(loss=1e6)] * 5, 1e6))


def test_a_policy_that_is_certain_at_once_and_stays_so() -> None:
    certain = row(entropy=0.001)
    assert not watched(certain, row())
    assert rules(watched(certain, certain)) == {"entropy"}
    nearly = UpdateWatch(gamma=0.99, choices=True)  # what is left of a solved task's entropy goes up and down
    assert not list(nearly.judge(NAMES, [row(entropy=0.002)] * 40 + [row(entropy=1e-6)] * 3, 1.0))
    numbers = UpdateWatch(gamma=0.99)  # the entropy of numbers may pass zero
    assert not list(numbers.judge(NAMES, [row()] * 20 + [certain] * 3, 1.0))


def test_a_value_that_says_the_same_of_everything_after_it_explained_much() -> None:
    dead = [row(explained_variance=1e-6)] * 10
    assert rules(watched(*dead)) == {"dead_value"}
    assert not watched(*dead[:9])
    watch = UpdateWatch(gamma=0.99)
    assert not list(watch.judge(NAMES, dead * 5, 1.0))  # one that never learned anything is another matter


def test_values_of_a_network_that_has_learned_nothing_may_be_larger_than_tiny_rewards() -> None:
    """SAC on MountainCarContinuous begins with rewards of at most 0.001 and values of 0.3."""
    watch = UpdateWatch(gamma=0.99)
    assert not list(watch.judge(NAMES, [row(q=-0.3)], 1e-3))
    names = ["entropy", "q", "temperature"]  # what is added for entropy counts as reward
    assert not list(watch.judge(names, [[-5.0, 900.0, 1.0]], 1e-3))
    assert rules(list(watch.judge(names, [[-5.0, 1100.0, 1.0]], 1e-3))) == {"q_scale"}


def test_weights_that_grow_all_of_a_sudden() -> None:
    watch = UpdateWatch(gamma=0.99)
    assert not [*watch.weigh(0.2), *watch.weigh(0.3), *watch.weigh(0.7)]
    assert rules(list(watch.weigh(2.2))) == {"weights"}
    assert rules(list(watch.weigh(math.inf))) == {"not_finite"}
    early = UpdateWatch(gamma=0.99)  # twice as large at each look
    assert not [*early.weigh(0.2, is_early=True), *early.weigh(0.4, is_early=True)]
    assert rules(list(early.weigh(0.8, is_early=True))) == {"weights"}


def test_gradients_are_limited_by_the_largest_so_far() -> None:
    watch = UpdateWatch(gamma=0.99)
    assert watch.gradient_limit == math.inf
    list(watch.judge(NAMES, [row(grad_norm=0.5), *[row()] * 40], 1.0))
    assert watch.gradient_limit == pytest.approx(1000.0)


def test_its_state_goes_on_as_if_it_had_not_been_cut() -> None:
    rng = np.random.default_rng(1)
    rows = [row(loss=float(rng.exponential()), entropy=float(rng.uniform(0.1, 1))) for _ in range(60)]
    rows += [row(loss=1e5), row(loss=1e5)]
    whole, first, second = (UpdateWatch(gamma=0.99, choices=True) for _ in range(3))
    list(whole.judge(NAMES, rows, 1.0))
    list(first.judge(NAMES, rows[:61], 1.0))
    second.load_state_dict(first.state_dict())
    list(second.judge(NAMES, rows[61:], 1.0))
    assert second.state_dict() == whole.state_dict()
    assert rules(list(second.judge(NAMES, [row(loss=1e5)], 1.0))) == {"spike"}
