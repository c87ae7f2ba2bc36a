"""The planner loop with each kind: what it finds, what it carries, and that a batch is as good as one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstudio.core.catalog import PLANNERS
from rlstudio.core.contracts import Outcome, Planner
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from rlstudio.models.policies import distributions as policies
from rlstudio.models.policies.distributions import Policy
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.proposals import CategoricalProposal, GaussianProposal
from rlstudio.planners.score import ReturnScore
from rlstudio.planners.search import Search
from rlstudio.planners.updates import best_softmax, effective_samples, elites, mean_per_first_action, softmax
from support.line_world import Line

NUMBERS = Box((2,), "float32", (-1.0,), (1.0,))
CHOICES = Discrete(3)
KINDS = tuple(kind for kind in PLANNERS.builtin if kind not in ("diffusion", "mcts"))


class Still:
    """A world in which nothing happens: what a guide acts in where a score is a plain function."""

    reward_range = None

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        return observations[None, :, None].expand(1, len(observations), candidates, 1)

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        return Outcome(states, states[..., 0] * 0, states[..., 0] * 0 + 1)

    def observe(self, states: Tensor) -> Tensor:
        return states


class Choosing(Line):
    """Left, stay or right."""

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        return super().step(states, (actions - 1).to(states.dtype).unsqueeze(-1))


def given(score: Callable[[Tensor, Tensor], Tensor]) -> ReturnScore:
    score.dynamics = Still()  # type: ignore[attr-defined]
    return score  # type: ignore[return-value]


def built(kind: str, space: Space, **settings: object) -> Planner:
    """A planner; the policy that guides one knows nothing."""
    return build_planner(PlannerConfig(kind=kind, **settings), space, indifferent(space))  # type: ignore[arg-type]


def indifferent(space: Space) -> PlanPolicy:
    def policy(observations: Tensor) -> Policy:
        if isinstance(space, Discrete):
            return policies.Categorical(observations.new_zeros(*observations.shape[:-1], space.n))
        assert isinstance(space, Box)
        mean = observations.new_zeros(*observations.shape[:-1], space.size)
        return policies.Gaussian(mean, mean - 1.0)

    return policy


class Target:
    """Numbers: each step is worth -(a - b)^2 for its own b. Choices: 1 for the right one."""

    dynamics = Still()

    def __init__(self, wanted: Tensor) -> None:
        self.wanted = wanted  # [H, m] or [H]

    def __call__(self, observations: Tensor, actions: Tensor) -> Tensor:
        if actions.is_floating_point():
            return -(actions - self.wanted).square().flatten(2).sum(2)
        return (actions == self.wanted).float().sum(2)


def plan(kind: str, space: Space, target: Target, envs: int = 3, **settings: object) -> Tensor:
    planner = built(kind, space, horizon=4, candidates=512, **settings)
    noise = planner.noise(np.random.default_rng(0), envs)
    return planner.plan(torch.zeros(envs, 1), target, None, noise).actions  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_numbers(kind: str) -> None:
    wanted = torch.tensor([[0.5, -0.3], [0.1, 0.2], [0.0, 0.0], [-0.4, 0.4]])
    settings = {"temperature": 0.05, "std": 0.5, "iterations": 1 if kind == "random_shooting" else 8, "shrink": 0.8}
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
    planner = built(kind, space, horizon=5, candidates=32)
    generator = torch.Generator().manual_seed(1)
    observations = torch.randn(4, 1, generator=generator)

    @given
    def score(seen: Tensor, actions: Tensor) -> Tensor:
        rows = actions.float().flatten(2)
        weights = torch.arange(rows.shape[2], dtype=torch.float32).sin()
        return -(rows @ weights - seen).square()

    noise = planner.noise(np.random.default_rng(2), 4)
    first = planner.plan(observations, score, None, noise)
    second = planner.plan(observations, score, first.carry, noise)
    for env in range(4):
        own = slice(env, env + 1)
        alone = planner.plan(observations[own], score, None, noise[own])
        again = planner.plan(observations[own], score, alone.carry, noise[own])
        torch.testing.assert_close(first.actions[own], alone.actions)
        torch.testing.assert_close(second.actions[own], again.actions)
        for name, part in second.carry.items():
            torch.testing.assert_close(part[own], again.carry[name])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_carry_is_a_fresh_start(kind: str) -> None:
    """What an episode's start does to a carry: zeros. The plan must be the one without a carry."""
    planner = built(kind, NUMBERS, horizon=4, candidates=16)
    noise = planner.noise(np.random.default_rng(0), 2)
    target = Target(torch.zeros(4, 2))
    begun = planner.plan(torch.zeros(2, 1), target, None, noise)  # type: ignore[arg-type]
    emptied = {name: torch.zeros_like(part) for name, part in begun.carry.items()}
    again = planner.plan(torch.zeros(2, 1), target, emptied, noise)  # type: ignore[arg-type]
    torch.testing.assert_close(begun.actions, again.actions)


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_that_is_no_number_never_wins(kind: str) -> None:
    planner = built(kind, NUMBERS, horizon=3, candidates=24, select="best")
    good = torch.zeros(3, 2)

    @given
    def score(seen: Tensor, actions: Tensor) -> Tensor:
        found = Target(good)(seen, actions)
        found = torch.where(actions[:, :, 0, 0] > 0, torch.nan, found)
        return torch.where(torch.isfinite(found), found, -torch.inf)

    found = planner.plan(torch.zeros(2, 1), score, None, planner.noise(np.random.default_rng(0), 2))  # type: ignore[arg-type]
    assert (found.actions[:, 0] <= 0).all()
    assert torch.isfinite(found.actions).all()
    hopeless = planner.plan(
        torch.zeros(2, 1),
        given(lambda seen, actions: torch.full(actions.shape[:2], -torch.inf)),
        None,
        planner.noise(np.random.default_rng(0), 2),
    )
    assert torch.isfinite(hopeless.actions).all()


@pytest.mark.parametrize("kind", ["random_shooting", "cem", "icem", "mppi", "guided"])
def test_a_plan_at_one_bound_still_sees_the_other(kind: str) -> None:
    """Or a pendulum leans on its motor for good: full torque one way is a plan that only another way improves."""
    proposal = built(kind, NUMBERS, horizon=8).proposal  # type: ignore[attr-defined]
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 1000, 8, 2), np.float32))
    full = {name: torch.ones_like(part) if name == "mean" else part for name, part in proposal.fresh(1, noise).items()}
    other_way = (proposal.sample(full, noise, 1.0)[0, :, :, 0] < 0).float().mean(0)
    assert (other_way > 0.1).all()


def test_weights_of_elites_and_of_the_softmax() -> None:
    scores = torch.tensor([[0.0, 3.0, 2.0, -torch.inf]])
    assert elites(2)(scores).tolist() == [[0.0, 0.5, 0.5, 0.0]]
    assert elites(4)(scores).tolist() == [[pytest.approx(1 / 3)] * 3 + [0.0]]
    torch.testing.assert_close(softmax(2.0)(scores), (scores / 2).softmax(1))
    best = best_softmax(2, 2.0)(scores)
    torch.testing.assert_close(best, torch.cat((torch.zeros(1), (scores[0, 1:3] / 2).softmax(0), torch.zeros(1)))[None])
    scaled = softmax(0.5, standardize=True)
    torch.testing.assert_close(scaled(scores), scaled(scores * 100 + 7), atol=1e-4, rtol=1e-4)
    assert elites(2)(torch.full((1, 3), -torch.inf)).sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(effective_samples(torch.full((1, 5), 0.2)), torch.tensor([5.0]))


def test_the_mean_after_each_first_choice() -> None:
    candidates = torch.tensor([[[0, 1], [0, 0], [1, 1], [1, 0], [2, 2]]])
    scores = torch.tensor([[5.0, 1.0, 3.5, 3.0, -torch.inf]])
    assert mean_per_first_action(candidates, scores, 3).tolist() == [1]  # 3.25 beats the mean of the best, 3.0


def test_coloured_noise_has_unit_variance_and_is_smooth() -> None:
    white, red = GaussianProposal(32, 1, 1.0), GaussianProposal(32, 1, 1.0, colour=2.0)
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 20_000, 32, 1), np.float32)) * 0.2
    parameters = white.fresh(1, noise)
    plain, coloured = white.sample(parameters, noise, 1.0), red.sample(parameters, noise, 1.0)
    assert coloured.std(1).sub(0.2).abs().max() < 0.01
    jumps = [rows.diff(dim=2).square().mean().item() for rows in (plain, coloured)]
    assert jumps[1] < 0.2 * jumps[0]


def test_choices_follow_their_probabilities_and_stick() -> None:
    proposal = CategoricalProposal(6, 3, floor=0.0)
    noise = torch.from_numpy(np.random.default_rng(0).random((1, 30_000, 6, 2), np.float32))
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    parameters = {"gain": (probabilities - 1 / 3).expand(1, 6, 3)}
    drawn = proposal.sample(parameters, noise, 1.0)
    shares = torch.stack([(drawn == choice).float().mean((0, 1)) for choice in range(3)], -1)
    assert (shares - probabilities).abs().max() < 0.015
    sticky = CategoricalProposal(6, 3, floor=0.0, sticky=0.8).sample(parameters, noise, 1.0)
    assert ((sticky[:, :, 1:] == sticky[:, :, :-1]).float().mean() - (0.8 + 0.2 * 0.38)).abs() < 0.01


def test_a_plan_goes_on_where_the_last_one_stopped() -> None:
    planner = build_planner(PlannerConfig(kind="cem", horizon=3, candidates=64, iterations=8), NUMBERS)
    wanted = torch.tensor([[0.1, 0.1], [0.5, 0.5], [-0.5, -0.5]])
    planned = planner.plan(torch.zeros(1, 1), Target(wanted), None, planner.noise(np.random.default_rng(0), 1))  # type: ignore[arg-type]
    carried = planned.carry["mean"][0]
    assert (carried[:2] - wanted[1:]).abs().max() < 0.15
    assert (carried[2] == 0).all()


@pytest.mark.parametrize(
    ("settings", "space", "message"),
    [
        ({"kind": "cem"}, Box((1,), "float32", (-np.inf,), (np.inf,)), "needs actions with bounds"),
        ({"kind": "cem"}, MultiDiscrete((2, 3)), r"MultiDiscrete\(2, 3\)"),
        ({"kind": "mppi"}, Dict((("a", Discrete(2)),)), "Dict"),
        ({"kind": "guided"}, CHOICES, "needs a policy to follow"),
        ({"kind": "mcts"}, NUMBERS, "needs one choice"),
        ({"kind": "diffusion"}, NUMBERS, "needs a trajectory model"),
        ({"kind": "random_shooting", "select": "first_action"}, NUMBERS, "needs one choice"),
        ({"kind": "random_shooting", "select": "mean"}, NUMBERS, "use select best"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings: dict[str, str], space: Space, message: str) -> None:
    with pytest.raises(Incompatible, match=message):
        build_planner(PlannerConfig(**settings), space)  # type: ignore[arg-type]


def test_scores_of_a_model_are_what_is_maximised() -> None:
    """On a line with its best place at 0, from 1: the first step goes down."""
    planner = build_planner(PlannerConfig(kind="cem", horizon=3, candidates=64), Box((1,), "float32", (-1.0,), (1.0,)))
    planned = planner.plan(torch.ones(1, 1), ReturnScore(Line()), None, planner.noise(np.random.default_rng(0), 1))
    assert planned.actions.item() < -0.8


def kinds_and_spaces() -> list[Any]:
    """Every kind, with numbers and choices in turn; the other half in the slow suite."""
    spaces = {"numbers": Box((1,), "float32", (-1.0,), (1.0,)), "choices": CHOICES}
    pairs = [(kind, name) for kind in KINDS for name in spaces]
    turns = {pairs[2 * number + number % 2] for number in range(len(KINDS))}
    return [
        pytest.param(kind, spaces[name], id=f"{kind}-{name}", marks=[pytest.mark.slow] * ((kind, name) not in turns))
        for kind, name in pairs
    ]


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "space"), kinds_and_spaces())
def test_a_compiled_plan_is_the_same(kind: str, space: Space, backend: str) -> None:
    """Shapes depend on the settings alone and noise comes from outside, so a whole plan is one graph, also as the
    compiler sees it (`aot_eager`: four times as long, so that only one kind is asked below where time is short)."""
    assert_same_compiled(kind, space, backend)


def test_a_compiled_plan_has_a_graph_of_plain_operations() -> None:
    assert_same_compiled("random_shooting", CHOICES, "aot_eager")


def assert_same_compiled(kind: str, space: Space, backend: str) -> None:
    torch.compiler.reset()  # compilations of other tests count towards its limit
    rounds = 1 if kind == "random_shooting" else 2
    planner = built(kind, space, horizon=2, candidates=8, iterations=rounds, policy_candidates=2)
    model = Line() if isinstance(space, Box) else Choosing()
    score, observations = ReturnScore(model, value=lambda seen: -seen[..., 0].abs()), torch.tensor([[0.5], [-1.0]])
    noise = planner.noise(np.random.default_rng(0), 2)
    compiled = torch.compile(planner.plan, backend=backend, fullgraph=True)
    plain, graphed = planner.plan(observations, score, None, noise), compiled(observations, score, None, noise)
    torch.testing.assert_close(plain.actions, graphed.actions)
    for name, part in plain.carry.items():
        torch.testing.assert_close(part, graphed.carry[name])


def test_rounds_without_learning_are_refused() -> None:
    with pytest.raises(Incompatible, match="raise candidates"):
        built("random_shooting", CHOICES, iterations=2)


def test_a_kept_share_of_zero_keeps_nothing() -> None:
    without, wide = built("icem", NUMBERS, keep=0.0), built("icem", NUMBERS, candidates=20, elites=1.0)
    assert isinstance(without, Search)
    assert isinstance(wide, Search)
    assert without.kept == 0
    assert max(wide.counts) == 20
