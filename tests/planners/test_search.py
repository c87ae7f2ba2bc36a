"""The planner loop with each kind: what it finds, what it carries, and that a batch is as good as one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_score import Line
from torch import Tensor

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from rlstudio.planners.build import ROUNDS, build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.proposals import Categorical, Gaussian
from rlstudio.planners.score import Score
from rlstudio.planners.updates import effective_samples, elites, mean_per_first_action, softmax

NUMBERS = Box((2,), "float32", (-1.0,), (1.0,))
CHOICES = Discrete(3)
KINDS = tuple(ROUNDS)


class Target:
    """Numbers: each step is worth -(a - b)^2 for its own b. Choices: 1 for the right one."""

    def __init__(self, wanted: Tensor) -> None:
        self.wanted = wanted  # [H, m] or [H]

    def __call__(self, observations: Tensor, actions: Tensor) -> Tensor:
        if actions.is_floating_point():
            return -(actions - self.wanted).square().flatten(2).sum(2)
        return (actions == self.wanted).float().sum(2)


def plan(kind: str, space: Space, target: Target, envs: int = 3, **settings: object) -> Tensor:
    planner = build_planner(PlannerConfig(kind=kind, horizon=4, candidates=128, **settings), space)  # type: ignore[arg-type]
    noise = planner.noise(np.random.default_rng(0), envs)
    return planner.plan(torch.zeros(envs, 1), target, None, noise).actions  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_numbers(kind: str) -> None:
    wanted = torch.tensor([[0.5, -0.3], [0.1, 0.2], [0.0, 0.0], [-0.4, 0.4]])
    settings = {"temperature": 0.05, "iterations": 1 if kind == "random_shooting" else 8, "shrink": 0.8}
    found = plan(kind, NUMBERS, Target(wanted), **settings)
    far = {"random_shooting": 0.9, "mppi": 0.25}.get(kind, 0.15)
    assert (found - wanted[0]).abs().max() < far


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_choices(kind: str) -> None:
    found = plan(kind, CHOICES, Target(torch.tensor([2, 0, 1, 1])), temperature=0.3)
    assert found.tolist() == [2, 2, 2]


@pytest.mark.parametrize("space", [NUMBERS, CHOICES], ids=["numbers", "choices"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_environments_is_planned_as_one_by_one(kind: str, space: Space) -> None:
    planner = build_planner(PlannerConfig(kind=kind, horizon=5, candidates=32), space)
    generator = torch.Generator().manual_seed(1)
    observations = torch.randn(4, 1, generator=generator)

    def score(seen: Tensor, actions: Tensor) -> Tensor:
        rows = actions.float().flatten(2)
        weights = torch.arange(rows.shape[2], dtype=torch.float32).sin()
        return -(rows @ weights - seen).square()

    noise = planner.noise(np.random.default_rng(2), 4)
    first = planner.plan(observations, score, None, noise)  # type: ignore[arg-type]
    second = planner.plan(observations, score, first.carry, noise)  # type: ignore[arg-type]
    for env in range(4):
        own = slice(env, env + 1)
        alone = planner.plan(observations[own], score, None, noise[own])  # type: ignore[arg-type]
        again = planner.plan(observations[own], score, alone.carry, noise[own])  # type: ignore[arg-type]
        torch.testing.assert_close(first.actions[own], alone.actions)
        torch.testing.assert_close(second.actions[own], again.actions)
        for name, part in second.carry.items():
            torch.testing.assert_close(part[own], again.carry[name])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_carry_is_a_fresh_start(kind: str) -> None:
    """What an episode's start does to a carry: zeros. The plan must be the one without a carry."""
    planner = build_planner(PlannerConfig(kind=kind, horizon=4, candidates=16), NUMBERS)
    noise = planner.noise(np.random.default_rng(0), 2)
    target = Target(torch.zeros(4, 2))
    begun = planner.plan(torch.zeros(2, 1), target, None, noise)  # type: ignore[arg-type]
    emptied = {name: torch.zeros_like(part) for name, part in begun.carry.items()}
    again = planner.plan(torch.zeros(2, 1), target, emptied, noise)  # type: ignore[arg-type]
    torch.testing.assert_close(begun.actions, again.actions)


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_that_is_no_number_never_wins(kind: str) -> None:
    planner = build_planner(PlannerConfig(kind=kind, horizon=3, candidates=24, select="best"), NUMBERS)
    good = torch.zeros(3, 2)

    def score(seen: Tensor, actions: Tensor) -> Tensor:
        found = Target(good)(seen, actions)
        found = torch.where(actions[:, :, 0, 0] > 0, torch.nan, found)
        return torch.where(torch.isfinite(found), found, -torch.inf)

    found = planner.plan(torch.zeros(2, 1), score, None, planner.noise(np.random.default_rng(0), 2))  # type: ignore[arg-type]
    assert (found.actions[:, 0] <= 0).all()
    assert torch.isfinite(found.actions).all()
    hopeless = planner.plan(
        torch.zeros(2, 1),
        lambda seen, actions: torch.full(actions.shape[:2], -torch.inf),  # type: ignore[arg-type]
        None,
        planner.noise(np.random.default_rng(0), 2),
    )
    assert torch.isfinite(hopeless.actions).all()


def test_weights_of_elites_and_of_the_softmax() -> None:
    scores = torch.tensor([[0.0, 3.0, 2.0, -torch.inf]])
    assert elites(2)(scores).tolist() == [[0.0, 0.5, 0.5, 0.0]]
    assert elites(4)(scores).tolist() == [[pytest.approx(1 / 3)] * 3 + [0.0]]
    torch.testing.assert_close(softmax(2.0)(scores), (scores / 2).softmax(1))
    scaled = softmax(0.5, standardize=True)
    torch.testing.assert_close(scaled(scores), scaled(scores * 100 + 7), atol=1e-4, rtol=1e-4)
    assert elites(2)(torch.full((1, 3), -torch.inf)).sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(effective_samples(torch.full((1, 5), 0.2)), torch.tensor([5.0]))


def test_the_mean_after_each_first_choice() -> None:
    candidates = torch.tensor([[[0, 1], [0, 0], [1, 1], [1, 0], [2, 2]]])
    scores = torch.tensor([[5.0, 1.0, 3.5, 3.0, -torch.inf]])
    assert mean_per_first_action(candidates, scores, 3).tolist() == [1]  # 3.25 beats the mean of the best, 3.0


def test_coloured_noise_has_unit_variance_and_is_smooth() -> None:
    white, red = Gaussian(32, 1, 1.0), Gaussian(32, 1, 1.0, colour=2.0)
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 20_000, 32, 1), np.float32)) * 0.2
    parameters = white.fresh(1, noise)
    plain, coloured = white.sample(parameters, noise, 1.0), red.sample(parameters, noise, 1.0)
    assert coloured.std(1).sub(0.2).abs().max() < 0.01
    jumps = [rows.diff(dim=2).square().mean().item() for rows in (plain, coloured)]
    assert jumps[1] < 0.2 * jumps[0]


def test_choices_follow_their_probabilities_and_stick() -> None:
    proposal = Categorical(6, 3, floor=0.0)
    noise = torch.from_numpy(np.random.default_rng(0).random((1, 30_000, 6, 2), np.float32))
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    parameters = {"gain": (probabilities - 1 / 3).expand(1, 6, 3)}
    drawn = proposal.sample(parameters, noise, 1.0)
    shares = torch.stack([(drawn == choice).float().mean((0, 1)) for choice in range(3)], -1)
    assert (shares - probabilities).abs().max() < 0.015
    sticky = Categorical(6, 3, floor=0.0, sticky=0.8).sample(parameters, noise, 1.0)
    assert ((sticky[:, :, 1:] == sticky[:, :, :-1]).float().mean() - (0.8 + 0.2 * 0.38)).abs() < 0.01


def test_a_plan_goes_on_where_the_last_one_stopped() -> None:
    planner = build_planner(PlannerConfig(kind="cem", horizon=3, candidates=64, iterations=8), NUMBERS)
    wanted = torch.tensor([[0.1, 0.1], [0.5, 0.5], [-0.5, -0.5]])
    planned = planner.plan(torch.zeros(1, 1), Target(wanted), None, planner.noise(np.random.default_rng(0), 1))  # type: ignore[arg-type]
    carried = planned.carry["mean"][0]
    assert (carried[:2] - wanted[1:]).abs().max() < 0.15
    assert (carried[2] == 0).all()


@pytest.mark.parametrize(
    ("settings", "space", "told"),
    [
        ({"kind": "cem"}, Box((1,), "float32", (-np.inf,), (np.inf,)), "needs actions with bounds"),
        ({"kind": "cem"}, MultiDiscrete((2, 3)), r"MultiDiscrete\(2, 3\)"),
        ({"kind": "mppi"}, Dict((("a", Discrete(2)),)), "Dict"),
        ({"kind": "random_shooting", "select": "first_action"}, NUMBERS, "needs one choice"),
        ({"kind": "random_shooting", "select": "mean"}, NUMBERS, "use select best"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings: dict[str, str], space: Space, told: str) -> None:
    with pytest.raises(Incompatible, match=told):
        build_planner(PlannerConfig(**settings), space)  # type: ignore[arg-type]


def test_scores_of_a_model_are_what_is_maximised() -> None:
    """On a line with its best place at 0, from 1: the first step goes down."""
    planner = build_planner(PlannerConfig(kind="cem", horizon=3, candidates=64), Box((1,), "float32", (-1.0,), (1.0,)))
    planned = planner.plan(torch.ones(1, 1), Score(Line()), None, planner.noise(np.random.default_rng(0), 1))
    assert planned.actions.item() < -0.8
