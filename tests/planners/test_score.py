"""Scores of action sequences: closed forms, ends of episodes, values that promise too much, numbers that are none."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlstudio.core.contracts import Outcome
from rlstudio.planners.score import ReturnScore
from support.line_world import Line


def naive(start: float, actions: list[float], gamma: float, goal: float, value: float) -> float:
    """One sequence, one step at a time, with a `break`."""
    x, total, discount = start, 0.0, 1.0
    for action in actions:
        x += action
        total += discount * -abs(x)
        discount *= gamma
        if x >= goal:
            return total
    return total + discount * value


@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4), min_size=1, max_size=5),
    st.floats(-2, 2, width=32),
    st.floats(0.5, 1.0),
)
def test_it_is_the_discounted_return_of_each_sequence(sequences: list[list[float]], start: float, gamma: float) -> None:
    actions = torch.tensor(sequences)[None, :, :, None].double()
    score = ReturnScore(Line(goal=1.5), gamma=gamma, value=lambda seen: seen[..., 0] * 0 - 3.0)
    found = score(torch.tensor([[start]]).double(), actions)
    wanted = [naive(start, sequence, gamma, 1.5, -3.0) for sequence in sequences]
    torch.testing.assert_close(found[0], torch.tensor(wanted).double())


def test_batched_equals_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    observations = torch.randn(5, 1, generator=generator)
    actions = torch.randn(5, 7, 6, 1, generator=generator)
    score = ReturnScore(Line(goal=2.0), gamma=0.9, value=lambda seen: -seen[..., 0].abs())
    together = score(observations, actions)
    for env in range(5):
        for candidate in range(7):
            alone = score(observations[env : env + 1], actions[env : env + 1, candidate : candidate + 1])
            torch.testing.assert_close(together[env, candidate], alone[0, 0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_no_number_is_the_lowest(bad: float) -> None:
    actions = torch.zeros(1, 3, 2, 1)
    actions[0, 1, 1] = bad
    scores = ReturnScore(Line())(torch.zeros(1, 1), actions)
    assert torch.isneginf(scores[0, 1])
    assert torch.isfinite(scores[0, [0, 2]]).all()


def test_a_value_that_promises_too_much_does_not_keep_it_from_the_goal() -> None:
    """Every step costs 1 until the goal: whatever the value says of going on, the end is better."""
    model = Line(goal=1.0, reward=-1.0)
    model.reward_range = (-1.0, -1.0)
    actions = torch.tensor([[[[1.0], [1.0]], [[-1.0], [-1.0]]]])  # to the goal; away from it
    for offset in (0.0, 5.0, 100.0, 1e6):
        score = ReturnScore(model, gamma=0.99, value=lambda seen, offset=offset: torch.full_like(seen[..., 0], offset))
        to_goal, away = score(torch.zeros(1, 1), actions)[0]
        assert to_goal > away, offset
    unbounded = Line(goal=1.0, reward=-1.0)  # without a known range there is nothing to hold it against
    score = ReturnScore(unbounded, value=lambda seen: torch.full_like(seen[..., 0], 100.0))
    to_goal, away = score(torch.zeros(1, 1), actions)[0]
    assert to_goal < away


@pytest.mark.parametrize(
    ("reward_range", "gamma", "bounds"),
    [
        ((-1.0, -1.0), 0.9, (-10.0, -1.0)),
        ((-1.0, 0.0), 0.9, (-10.0, 0.0)),
        ((1.0, 1.0), 0.9, (1.0, 10.0)),
        ((-2.0, 3.0), 0.5, (-4.0, 6.0)),
        ((1.0, 1.0), 1.0, (1.0, None)),
        ((-1.0, -1.0), 1.0, (None, -1.0)),
        (None, 0.9, (None, None)),
    ],
)
def test_what_an_unfinished_episode_can_be_worth(
    reward_range: tuple[float, float] | None, gamma: float, bounds: tuple[float | None, float | None]
) -> None:
    model = Line()
    model.reward_range = reward_range
    found = ReturnScore(model, gamma=gamma)._bounds
    assert found == (pytest.approx(bounds[0]), pytest.approx(bounds[1]))


def test_particles_are_averaged_and_their_spread_may_be_taken_off() -> None:
    observations, actions = torch.ones(1, 1), torch.zeros(1, 1, 1, 1)
    per_particle = torch.tensor([-1.0, -1.1, -1.2])
    mean = ReturnScore(Line(particles=3))(observations, actions)
    careful = ReturnScore(Line(particles=3), pessimism=2.0)(observations, actions)
    torch.testing.assert_close(mean[0, 0], per_particle.mean())
    torch.testing.assert_close(careful[0, 0], per_particle.mean() - 2 * per_particle.std())


def test_a_planning_reward_replaces_the_models() -> None:
    observations, actions = torch.zeros(1, 1), torch.full((1, 1, 3, 1), 0.5)
    dense = ReturnScore(Line(), gamma=0.5, reward=lambda seen, chosen, after: after[..., 0] + chosen[..., 0])
    torch.testing.assert_close(dense(observations, actions)[0, 0], torch.tensor(1.0 + 0.5 * 1.5 + 0.25 * 2.0))


def test_what_comes_after_the_end_of_an_episode_does_not_matter() -> None:
    class Lost(Line):
        def step(self, states: Tensor, actions: Tensor) -> Outcome:
            outcome = super().step(states, actions)
            return outcome._replace(rewards=torch.where(states[..., 0] >= self.goal, torch.nan, outcome.rewards))

    score = ReturnScore(Lost(goal=0.5), value=lambda seen: seen[..., 0] * torch.nan)
    found = score(torch.zeros(1, 1), torch.ones(1, 1, 3, 1))
    torch.testing.assert_close(found, torch.tensor([[-1.0]]))
