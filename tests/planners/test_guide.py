"""Planning guided by a policy: what the policy proposes, and that it helps where there are few candidates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstudio.agents.bounded import BoundedAgent
from rlstudio.agents.policy import PolicyAgent
from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.policies.distributions import Categorical, Gaussian, mode
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.models.policies.q_values import QuantileValue, QValue
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.guide import Guide
from rlstudio.planners.score import ReturnScore
from support.line_world import Line

STEP = Box((1,), "float32", (-1.0,), (1.0,))


def homing(observations: Tensor) -> Gaussian:
    """On a line: straight to 0, about."""
    return Gaussian(-observations.clamp(-1.0, 1.0), torch.full_like(observations, -3.0))


def test_the_first_sequence_is_the_policys_best_and_the_others_are_samples_by_the_noise() -> None:
    guide, score = Guide(homing, 3, 4), ReturnScore(Line())
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 4, 1), np.float32))
    found = guide(torch.tensor([[2.5], [-0.5]]), score, noise)
    assert found.shape == (2, 3, 4, 1)
    torch.testing.assert_close(found[0, 0, :, 0], torch.tensor([-1.0, -1.0, -0.5, 0.0]))
    torch.testing.assert_close(found[1, 0, :, 0], torch.tensor([0.5, 0.0, 0.0, 0.0]))
    torch.testing.assert_close(found, guide(torch.tensor([[2.5], [-0.5]]), score, noise))
    other = guide(torch.tensor([[2.5], [-0.5]]), score, -noise)
    torch.testing.assert_close(found[:, 0], other[:, 0])
    assert not torch.equal(found[:, 1:], other[:, 1:])
    assert (found.abs() <= 1).all()


def test_choices_are_drawn_by_their_probabilities() -> None:
    logits = torch.tensor([0.2, 0.5, 0.3]).log()
    guide = Guide(lambda seen: Categorical(logits.expand(*seen.shape[:-1], 3)), 4_000, 1)
    noise = torch.from_numpy(np.random.default_rng(0).random((1, 4_000, 1, 2), np.float32))
    found = guide(torch.zeros(1, 1), ReturnScore(Line()), noise)[0, :, 0]
    assert found[0] == 1
    shares = torch.bincount(found, minlength=3) / len(found)
    torch.testing.assert_close(shares, logits.exp(), atol=0.03, rtol=0.0)


def test_a_model_that_goes_astray_leaves_no_traces_in_what_is_proposed() -> None:
    guide = Guide(lambda seen: Gaussian(seen * torch.nan, seen * 0), 2, 3)
    assert torch.isfinite(guide(torch.ones(1, 1), ReturnScore(Line()), torch.zeros(1, 2, 3, 1))).all()


def test_a_policy_helps_where_candidates_are_few() -> None:
    """From far away on a line: all the way back at full speed is one sequence in many."""
    far = {}
    for kind in ("guided", "cem"):
        cfg = PlannerConfig(kind=kind, horizon=10, candidates=4, iterations=1, policy_candidates=2, elites=0.5)  # type: ignore[arg-type]
        planner = build_planner(cfg, STEP, homing)
        noise = planner.noise(np.random.default_rng(0), 64)
        planned = planner.plan(torch.full((64, 1), 5.0), ReturnScore(Line()), None, noise)
        far[kind] = (planned.actions + 1.0).abs().mean().item()
    assert far["guided"] < 0.2 < 0.5 < far["cem"]


@pytest.mark.parametrize(
    ("env_id", "model_kind", "agent_kind"),
    [
        ("CartPole-v1", PolicyValue, PolicyAgent),
        ("Pendulum-v1", PolicyValue, PolicyAgent),
        ("CartPole-v1", QValue, QValueAgent),
        ("CartPole-v1", QuantileValue, QValueAgent),
        ("Pendulum-v1", SquashedPolicy, BoundedAgent),
        ("Pendulum-v1", DeterministicPolicy, BoundedAgent),
    ],
)
def test_a_trained_agents_policy_is_what_it_does(env_id: str, model_kind: type, agent_kind: type) -> None:
    """At its most likely, in the units of a plan, for any leading dimensions."""
    spaces: Spaces = make_world(env_id, {}).spaces
    extra = {"quantiles": 5} if model_kind is QuantileValue else {}
    model = model_kind(spaces, NetworkConfig(), Rng(0), **extra)
    seen = np.random.default_rng(0).standard_normal((6, *spaces.observation.shape)).astype(np.float32)  # type: ignore[union-attr]
    acted = torch.as_tensor(agent_kind(model, spaces).step(seen).actions)
    policy, value = model.policy_for_plan(), model.value_for_plan({})
    assert policy is not None
    found = mode(policy(torch.from_numpy(seen).view(2, 3, -1))).flatten(0, 1)
    if isinstance(spaces.action, Box):
        found = found.clamp(-1, 1) * torch.tensor(spaces.action.bounds()[1])
    torch.testing.assert_close(found, acted)
    assert (value is None) == (agent_kind is BoundedAgent)
    if value is not None:
        assert value(torch.from_numpy(seen).view(2, 3, -1)).shape == (2, 3)
