"""The decision to promote: how often it errs, when it stops, and what it says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rlstudio.control.registry.promotion import Play, PromotionConfig, judge
from rlstudio.ops.sequential import look, spending, student_quantile
from support.repetition import few

CFG = PromotionConfig()


CELLS = ("dqn_acrobot", "ppo_mountaincar", "ppo_lunarlander", "sac_pendulum", "qrdqn_cartpole")
"""Of the learning table: two short goals, a landing with rare crashes, starts that decide, and nearly all the same."""


@cache
def recorded(cell: str) -> list[np.ndarray]:
    """What trained policies of a cell earned in its 50 report episodes, one row per training seed. Episode number n
    begins alike in all of them. Policies that earn the most in each are left out: none can be better."""
    table = Path(__file__).parents[3] / "benchmarks" / "results" / "learning.jsonl"
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    returns = [np.array(row["returns"]) for row in rows if (row["cell"], row["side"]) == (cell, "rlstudio")]
    return [row for row in returns if row.std() > 0]


def policies(cell: str, shift: float, case: int) -> tuple[Play, Play]:
    """Two policies of a cell, and who of them plays an episode as the candidate is drawn by lot: so they are equally
    good, whatever they earned. `shift` makes the candidate better by so many standard deviations of a return."""
    trained = recorded(cell)
    chance = np.random.default_rng([CELLS.index(cell), case])
    one, other = chance.choice(len(trained), 2, replace=False)
    pair = np.stack([trained[one], trained[other]])
    spread = float(pair.std())

    def play(side: int) -> Play:
        def returns(seed: int, episodes: int) -> list[float]:
            shared = np.random.default_rng([seed, case])
            starts = shared.integers(pair.shape[1], size=episodes)
            swapped = shared.integers(2, size=episodes)
            return list(pair[swapped ^ side, starts] + (shift * spread if side == 0 else 0.0))

        return returns

    return play(0), play(1)


SHIFTS = [(-0.5, 0.0, 0.02), (0.0, 0.0, 0.05), (1.0, 0.9, 1.0)]
"""By how much the candidate is better, and how often it may be promoted."""


def in_turn(case: tuple[str, float, float, float]) -> bool:
    """Each cell once, and each shift at least once."""
    return CELLS.index(case[0]) % len(SHIFTS) == SHIFTS.index(case[1:])


@pytest.mark.parametrize(
    ("cell", "shift", "least", "most"), few([(cell, *shift) for shift in SHIFTS for cell in CELLS], in_turn)
)
@pytest.mark.parametrize("cases", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_how_often_it_promotes(cell: str, shift: float, least: float, most: float, cases: int) -> None:
    promoted = 0
    for case in range(cases):
        candidate, incumbent = policies(cell, shift, case)
        promoted += judge(candidate, incumbent, CFG, seed=7).promote
    assert least <= promoted / cases <= most, promoted


def test_a_lucky_checkpoint_has_no_luck_on_fresh_seeds() -> None:
    """The best of 50 evaluations of the same policy looks far better than it is; it is promoted as rarely as any."""
    (policy, *_), promoted = recorded("sac_pendulum"), 0
    for case in range(40):
        chance = np.random.default_rng([1, case])
        tries = [chance.choice(policy, 10).mean() for _ in range(50)]
        assert max(tries) > policy.mean() + 40  # what made it the best
        candidate, incumbent = policies("sac_pendulum", 0.0, case)
        promoted += judge(candidate, incumbent, CFG, seed=11).promote
    assert promoted <= 3


def test_it_looks_as_early_as_it_can_and_stops() -> None:
    def high(seed: int, episodes: int) -> list[float]:
        return [10.0 + number % 3 for number in range(episodes)]

    def low(seed: int, episodes: int) -> list[float]:
        return [0.0 + number % 2 for number in range(episodes)]

    clear = judge(high, low, CFG)
    assert (clear.promote, clear.episodes, len(clear.looks)) == (True, CFG.first_look, 1)
    hopeless = judge(low, high, CFG)
    assert (hopeless.promote, hopeless.episodes) == (False, CFG.first_look)
    assert "not better than production" in hopeless.reason


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
