"""Tree search: against brute force, batched as one by one, and no number that is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstudio.core.catalog import PLANNERS
from rlstudio.core.contracts import Outcome, Planned
from rlstudio.core.spaces import Discrete
from rlstudio.models.policies.distributions import Categorical
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import ReturnScore
from rlstudio.planners.tree import TreeSearch, turns
from support.line_world import Line

CHOICES, DEPTH = 3, 3


class Branching:
    """Every environment is a world of its own with a reward for each branch of a tree, which ends after DEPTH steps.

    State: world, node. The children of node n are CHOICES * n + 1 + choice.
    """

    reward_range = None

    def __init__(self, rewards: Tensor) -> None:
        self.rewards = rewards  # [worlds, nodes]: of getting there

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        return observations[None, :, None].expand(1, len(observations), candidates, 2)

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        world, node = states[..., 0].long(), states[..., 1].long()
        after = CHOICES * node + 1 + actions
        last = (CHOICES**DEPTH - 1) // (CHOICES - 1)  # the first node of the last level
        inside = after.clamp(max=self.rewards.shape[1] - 1)
        following = torch.stack((states[..., 0], inside.to(states.dtype)), -1)
        return Outcome(following, self.rewards[world, inside], (after < last).to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        return states


class Stepping(Line):
    """A walk with choices: left, stay, right."""

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        return super().step(states, actions.unsqueeze(-1).to(states.dtype) - 1.0)


def worlds(count: int) -> tuple[Branching, Tensor]:
    nodes = (CHOICES ** (DEPTH + 1) - 1) // (CHOICES - 1)
    model = Branching(torch.from_numpy(np.random.default_rng(3).standard_normal((count, nodes)).astype(np.float32)))
    return model, torch.stack((torch.arange(count, dtype=torch.float32), torch.zeros(count)), -1)


def best_values(model: Branching) -> Tensor:
    """What is still to come at each node [worlds, nodes] for who knows everything, from the last level up."""
    values = torch.zeros_like(model.rewards)
    for node in reversed(range((CHOICES**DEPTH - 1) // (CHOICES - 1))):
        children = slice(CHOICES * node + 1, CHOICES * node + 1 + CHOICES)
        values[:, node] = (model.rewards + values)[:, children].amax(1)
    return values


def regrets(model: Branching, chosen: Tensor) -> Tensor:
    """How much less than the best there is after these first choices."""
    after = (model.rewards + best_values(model))[:, 1 : 1 + CHOICES]
    return after.amax(1) - after.gather(1, chosen.unsqueeze(1)).squeeze(1)


def test_it_finds_what_trying_everything_finds() -> None:
    """With the true value; with a wrong one much more often than who looks one step ahead by it."""
    model, observations = worlds(64)
    true = best_values(model)
    wrong = true + torch.from_numpy(np.random.default_rng(4).standard_normal(true.shape).astype(np.float32))

    def planned(values: Tensor, simulations: int) -> Planned:
        search = TreeSearch(CHOICES, simulations)
        score = ReturnScore(model, value=lambda seen: values[seen[..., 0].long(), seen[..., 1].long()])
        return search.plan(observations, score, None, torch.zeros(64, CHOICES))

    assert regrets(model, planned(true, CHOICES).actions).max() == 0
    assert regrets(model, planned(true, 200).actions).max() == 0
    found = planned(wrong, 64)
    greedy = (model.rewards + wrong)[:, 1 : 1 + CHOICES].argmax(1)
    assert regrets(model, found.actions).mean() < 0.5 * regrets(model, greedy).mean()
    torch.testing.assert_close(found.metrics["improved_policy"].sum(-1), torch.ones(64))


def test_a_batch_of_environments_is_planned_as_one_by_one_and_noise_decides() -> None:
    model, observations = worlds(6)
    search = TreeSearch(CHOICES, 20, lambda seen: Categorical(seen[..., 1:] * torch.tensor([0.1, -0.1, 0.2])))
    score = ReturnScore(model, gamma=0.9, value=lambda seen: seen[..., 1] * 0.01)
    noise = search.noise(np.random.default_rng(1), 6)
    together = search.plan(observations, score, None, noise)
    for env in range(6):
        own = slice(env, env + 1)
        alone = search.plan(observations[own], score, None, noise[own])
        assert alone.actions.item() == together.actions[env].item()
        for name, part in together.metrics.items():
            torch.testing.assert_close(alone.metrics[name][0], part[env])
    again = search.plan(observations, score, {}, noise)
    torch.testing.assert_close(again.metrics["improved_policy"], together.metrics["improved_policy"])
    forced = search.plan(observations, score, None, torch.tensor([[0.0, 0.0, 1e3]]).expand(6, 3))
    assert (forced.actions == 2).all()


@pytest.mark.parametrize(
    ("simulations", "backend"), [(4, "eager"), pytest.param(6, "aot_eager", marks=pytest.mark.slow)]
)
def test_a_compiled_plan_is_the_same(simulations: int, backend: str) -> None:
    """Four simulations: one of them goes below a choice that was tried."""
    torch.compiler.reset()  # compilations of other tests count towards its limit
    model, observations = worlds(3)
    search = TreeSearch(CHOICES, simulations, lambda seen: Categorical(seen[..., 1:] * torch.tensor([0.1, -0.1, 0.2])))
    score, noise = ReturnScore(model, gamma=0.9, value=lambda seen: seen[..., 1] * 0.01), torch.zeros(3, CHOICES)
    plain = search.plan(observations, score, None, noise)
    graphed = torch.compile(search.plan, backend=backend, fullgraph=True)(observations, score, None, noise)
    assert torch.equal(plain.actions, graphed.actions)
    for name, part in plain.metrics.items():
        torch.testing.assert_close(graphed.metrics[name], part)


def test_it_looks_as_far_as_it_must() -> None:
    """Four steps to the goal, each at a price; going away costs the same for now."""
    model = Stepping(goal=4.0, reward=-1.0)
    search = TreeSearch(3, 256)
    noise = search.noise(np.random.default_rng(0), 8)
    planned = search.plan(
        torch.zeros(8, 1), ReturnScore(model, value=lambda seen: -10.0 + 0 * seen[..., 0]), None, noise
    )
    assert (planned.actions == 2).all()


def test_a_likely_choice_is_tried_first() -> None:
    """With fewer simulations than choices, only what the policy thinks likely is ever seen."""
    logits = torch.tensor([0.0, 8.0, 7.0, 0.0, 0.0])
    model = Line()
    model.step = lambda states, actions: Outcome(states, actions.to(states)[None], torch.ones_like(states[..., 0]))  # type: ignore[method-assign]
    search = TreeSearch(5, 2, lambda seen: Categorical(logits.expand(*seen.shape[:-1], 5)))
    planned = search.plan(torch.zeros(1, 1), ReturnScore(model), None, torch.zeros(1, 5))
    assert planned.actions.item() == 2  # the better one of 1 and 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["reward", "value"])
def test_a_step_that_is_no_number_never_wins(bad: float, where: str) -> None:
    """To the left lies something broken; everything else costs 1."""
    model = Stepping(reward=-1.0)

    def reward(seen: Tensor, actions: Tensor, after: Tensor) -> Tensor:
        return torch.where((after[..., 0] < 0) & (where == "reward"), bad, -1.0)

    def value(seen: Tensor) -> Tensor:
        return torch.where((seen[..., 0] < 0) & (where == "value"), bad, -seen[..., 0])

    search = TreeSearch(3, 24)
    noise = search.noise(np.random.default_rng(0), 8)
    planned = search.plan(torch.zeros(8, 1), ReturnScore(model, reward=reward, value=value), None, noise)
    assert (planned.actions > 0).all()
    assert torch.isfinite(planned.metrics["score"]).all()
    assert torch.isfinite(planned.metrics["improved_policy"]).all()
    lost = ReturnScore(model, reward=reward, value=lambda seen: torch.where(seen[..., 0] == 0, bad, value(seen)))
    here = search.plan(torch.zeros(8, 1), lost, None, noise)  # no number where it stands, fair ones beyond
    assert (here.actions > 0).all()
    assert torch.isfinite(here.metrics["score"]).all()
    hopeless = ReturnScore(model, reward=lambda seen, actions, after: after[..., 0] * torch.nan)
    assert (search.plan(torch.zeros(8, 1), hopeless, None, noise).actions < 3).all()


@pytest.mark.parametrize("offset", [0.0, 5.0, 1e6])
@pytest.mark.parametrize("kind", [kind for kind in PLANNERS.builtin if kind != "diffusion"])
def test_a_value_that_promises_too_much_keeps_no_kind_from_the_goal(kind: str, offset: float) -> None:
    model = Stepping(goal=1.0, reward=-1.0)
    model.reward_range = (-1.0, -1.0)
    cfg = PlannerConfig(kind=kind, horizon=2, candidates=32)  # type: ignore[arg-type]
    planner = build_planner(cfg, Discrete(3), lambda seen: Categorical(seen.new_zeros(*seen.shape[:-1], 3)))
    score = ReturnScore(model, gamma=0.99, value=lambda seen: torch.full_like(seen[..., 0], offset))
    planned = planner.plan(torch.zeros(4, 1), score, None, planner.noise(np.random.default_rng(0), 4))
    assert (planned.actions == 2).all()


@pytest.mark.parametrize(("choices", "simulations"), [(1, 4), (2, 32), (3, 32), (5, 17), (16, 64), (16, 5)])
def test_turns_halve_what_is_left(choices: int, simulations: int) -> None:
    order = turns(choices, simulations)
    assert len(order) == simulations
    visits = [0] * choices
    for tries in order:  # the first of those that have been tried so often: the order is always the same
        visits[visits.index(tries)] += 1
    assert sum(visits) == simulations
    assert visits == sorted(visits, reverse=True)
