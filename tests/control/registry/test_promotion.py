"""The decision to promote: how often it errs, when it stops, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from rlstudio.control.registry.promotion import Play, PromotionConfig, judge
from rlstudio.ops.sequential import look, spending, student_quantile

CFG = PromotionConfig()


def cartpole(generator: np.random.Generator, episodes: int) -> np.ndarray:
    """As policies of the learning table play it that are nearly there: most episodes full, some cut short."""
    return np.where(generator.random(episodes) < 0.7, 500.0, generator.uniform(150, 500, episodes))


def pendulum(generator: np.random.Generator, episodes: int) -> np.ndarray:
    """Returns by the start: a third begin upright and cost little, the rest one or two swings."""
    swings = generator.choice([0.0, 125.0, 240.0], episodes, p=[0.3, 0.5, 0.2])
    return -np.abs(swings + generator.normal(0, 12, episodes))


SPREADS = {"cartpole": cartpole, "pendulum": pendulum}


@cache
def spread_of(draw: Callable[[np.random.Generator, int], np.ndarray]) -> float:
    return float(draw(np.random.default_rng(0), 100_000).std())


def policies(draw: Callable[[np.random.Generator, int], np.ndarray], shift: float, case: int) -> tuple[Play, Play]:
    """A candidate whose every return is better by `shift` standard deviations, and the incumbent, on the same seeds."""
    spread = spread_of(draw)

    def play(worth: float, who: int) -> Play:
        def returns(seed: int, episodes: int) -> list[float]:
            # What they share is the start; half of the rest is their own.
            start = draw(np.random.default_rng([seed, case]), episodes)
            own = draw(np.random.default_rng([seed, case, who]), episodes)
            mixed = np.where(np.random.default_rng([seed, case, who, 1]).random(episodes) < 0.5, start, own)
            return list(mixed + worth * spread)

        return returns

    return play(shift, 1), play(0.0, 2)


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize(("shift", "least", "most"), [(-0.5, 0.0, 0.02), (0.0, 0.0, 0.05), (1.0, 0.9, 1.0)])
@pytest.mark.parametrize("cases", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_how_often_it_promotes(name: str, shift: float, least: float, most: float, cases: int) -> None:
    promoted = 0
    for case in range(cases):
        candidate, incumbent = policies(SPREADS[name], shift, case)
        promoted += judge(candidate, incumbent, CFG, seed=7).promote
    assert least <= promoted / cases <= most, promoted


def test_a_lucky_checkpoint_has_no_luck_on_fresh_seeds() -> None:
    """The best of 50 evaluations of the same policy looks far better than it is; it is promoted as rarely as any."""
    promoted = 0
    for case in range(100):
        tries = [pendulum(np.random.default_rng([1, case, number]), 10).mean() for number in range(50)]
        assert max(tries) > -120  # what made it the best
        candidate, incumbent = policies(pendulum, 0.0, case)
        promoted += judge(candidate, incumbent, CFG, seed=11).promote
    assert promoted <= 8


def test_it_looks_as_early_as_it_can_and_stops() -> None:
    def high(seed: int, episodes: int) -> list[float]:
        return [10.0 + number % 3 for number in range(episodes)]

    def low(seed: int, episodes: int) -> list[float]:
        return [0.0 + number % 2 for number in range(episodes)]

    clear = judge(high, low, CFG)
    assert (clear.promote, clear.episodes, len(clear.looks)) == (True, CFG.first_look, 1)
    hopeless = judge(low, high, CFG)
    assert (hopeless.promote, hopeless.episodes) == (False, CFG.first_look)
    assert "not better by 0" in hopeless.reason


def test_too_few_episodes_are_said_and_nothing_is_promoted() -> None:
    generator = np.random.default_rng(0)
    draws = generator.normal(0, 1, (2, 400))
    taken = [0, 0]

    def play(side: int, worth: float) -> Play:
        def returns(seed: int, episodes: int) -> list[float]:
            taken[side] += episodes
            return list(draws[side, taken[side] - episodes : taken[side]] + worth)

        return returns

    verdict = judge(play(0, 0.05), play(1, 0.0), CFG)
    assert not verdict.promote
    assert verdict.reason.startswith("too few episodes to tell")
    assert verdict.reason.endswith("raise the budget")
    assert verdict.episodes == CFG.budget
    assert [entry.n for entry in verdict.looks] == [20, 40, 80, 160]


def test_gates_on_the_candidate_alone() -> None:
    def good(seed: int, episodes: int) -> list[float]:
        return [100.0] * (episodes - 2) + [10.0, 10.0]

    def bad(seed: int, episodes: int) -> list[float]:
        return [0.0, 1.0] * (episodes // 2)

    assert judge(good, bad, CFG).promote
    for gate, wanted in {"min_return": 99.0, "max_std": 5.0, "worst_return": 60.0}.items():
        verdict = judge(good, bad, PromotionConfig(**{gate: wanted}))  # type: ignore[arg-type]
        assert not verdict.promote
        assert verdict.reason.startswith(f"gate {gate}: ")
    first = judge(good, None, PromotionConfig(min_return=50.0, budget=40))
    assert (first.promote, first.episodes, first.incumbent) == (True, 40, None)
    assert not judge(bad, None, PromotionConfig(min_return=50.0, budget=40)).promote


def test_a_margin_must_be_passed() -> None:
    def candidate(seed: int, episodes: int) -> list[float]:
        return [1.0 + 0.01 * (i % 5) for i in range(episodes)]

    def incumbent(seed: int, episodes: int) -> list[float]:
        return [0.0 + 0.01 * (i % 3) for i in range(episodes)]

    assert judge(candidate, incumbent, PromotionConfig(margin=0.9)).promote
    assert not judge(candidate, incumbent, PromotionConfig(margin=1.2)).promote


def test_the_verdict_holds_every_number() -> None:
    verdict = judge(lambda seed, n: [1.0 + i % 2 for i in range(n)], lambda seed, n: [0.0] * n, CFG, seed=3)
    document = verdict.to_json()
    assert document["seed"] == 3
    assert document["settings"]["alpha"] == CFG.alpha
    assert document["looks"][0]["lower"] <= document["looks"][0]["mean"] <= document["looks"][0]["upper"]
    assert document["candidate"]["n"] == document["incumbent"]["n"] == verdict.episodes


def test_what_is_spent_adds_up() -> None:
    assert sum(spending([20, 40, 80, 160], 0.05)) == pytest.approx(0.05)
    assert spending([10], 0.05) == [pytest.approx(0.05)]
    with pytest.raises(ValueError, match="must grow"):
        spending([20, 20], 0.05)
    with pytest.raises(ValueError, match="two finite"):
        look([1.0], 0.05)


@pytest.mark.parametrize(
    ("p", "degrees", "exact"),
    [(0.975, 10, 2.228139), (0.975, 19, 2.093024), (0.99, 19, 2.539483), (0.995, 39, 2.707913), (0.95, 159, 1.654494)],
)
def test_quantiles_of_students_distribution(p: float, degrees: int, exact: float) -> None:
    assert student_quantile(p, degrees) == pytest.approx(exact, abs=1e-3)
