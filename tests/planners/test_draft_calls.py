"""The calls of the design documents, typed as they stand there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import TrajectoryModel
from rlstudio.models.policies.distributions import log_prob
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.diffusion import DiffusionPlanner, DiffusionPlannerConfig
from rlstudio.planners.one_plan import OnePlan
from rlstudio.planners.score import rollout_reward

NETWORK = NetworkConfig(hidden_sizes=(8,))


def typed(snippet: str, **names: Any) -> dict[str, Any]:
    """What the names are after this line."""
    exec(snippet, names)
    return names


def spaces_of(env_id: str) -> Spaces:
    return make_world(env_id, {}, {}).spaces


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_planner_act(env_id: str) -> None:
    spaces = spaces_of(env_id)
    model = PolicyOnly(spaces, NETWORK, Rng(0))
    names = {
        "planner": OnePlan(spaces.action),
        "obs": np.full(spaces.observation.shape, 0.05, np.float32),
        "policy": model.policy,
        "dynamics": analytic_dynamics(env_id),
        "value": lambda observations: observations[..., 0],
        "cfg": PlannerConfig(kind="guided", horizon=4, candidates=8, policy_candidates=2),
    }
    line = "action = planner.act(obs, policy, dynamics, value, cfg, rng)"
    first, again = (typed(line, **names, rng=np.random.default_rng(3))["action"] for _ in range(2))
    if env_id == "CartPole-v1":
        assert isinstance(first, int)
        assert first in (0, 1)
    else:
        assert first.shape == (1,)
        assert abs(first) <= 2.0
    assert first == again  # the same seed, the same plan
    with pytest.raises(Incompatible, match="reward native"):
        typed(line, **{**names, "cfg": PlannerConfig(reward="dense")}, rng=np.random.default_rng(3))


def test_rollout_reward_is_the_sum_of_the_rewards_and_the_value_after_them() -> None:
    dynamics = analytic_dynamics("Pendulum-v1")
    obs, actions = torch.tensor([1.0, 0.0, 0.5]), torch.tensor([[0.5], [-0.5]])
    states, expected = dynamics.start(obs[None], 1), 0.0
    for action in actions:
        states, rewards, _ = dynamics.step(states, action[None, None])
        expected += float(rewards)
    names: dict[str, Any] = {"rollout_reward": rollout_reward, "obs": obs, "actions": actions, "dynamics": dynamics}
    reward = typed("reward = rollout_reward(obs, actions, dynamics, value=None)", **names)["reward"]
    assert float(reward) == pytest.approx(expected)
    with_value = typed(
        "reward = rollout_reward(obs, actions, dynamics, value)", **names, value=lambda o: -o[..., 2].abs()
    )
    assert float(with_value["reward"]) == pytest.approx(expected - abs(float(dynamics.observe(states)[..., 2])))
    several = rollout_reward(obs.expand(3, 3), actions.expand(3, 2, 1), dynamics)
    assert torch.allclose(several, reward.expand(3))


def test_diffusion_sample_and_its_planner() -> None:
    diffusion = TrajectoryModel(spaces_of("Pendulum-v1"), NETWORK, Rng(0), horizon=4)
    obs, dynamics = torch.tensor([1.0, 0.0, 0.5]), analytic_dynamics("Pendulum-v1")
    names = {"diffusion": diffusion, "obs": obs, "horizon": 4, "dynamics": dynamics, "value": None}
    line = "actions = diffusion.sample(obs, horizon, guidance_fn)"
    plain = typed(line, **names, guidance_fn=None)["actions"]
    assert plain.shape == (4, 1)
    up = typed(line, **names, guidance_fn=lambda x: 10.0 * x.sum((-1, -2)))["actions"]
    assert up.sum() > plain.sum()  # it is bent towards a larger sum
    with pytest.raises(Incompatible, match="the trajectory model has 4 steps"):
        diffusion.sample(obs, 5)
    line = "action = diffusion_planner.act(obs, diffusion, dynamics, value, cfg)"
    cfg = DiffusionPlannerConfig(horizon=4, candidates=8, levels=3)
    action = typed(line, **names, cfg=cfg, diffusion_planner=DiffusionPlanner)["action"]
    assert action == typed(line, **names, cfg=cfg, diffusion_planner=DiffusionPlanner(cfg, diffusion))["action"]
    assert abs(action) <= 2.0


def test_a_module_acts_on_a_batch_and_values_it() -> None:
    spaces = spaces_of("CartPole-v1")
    module = PolicyAgent(build_policy_value(spaces, NETWORK, Rng(0)), spaces)
    batch = Batch(observations=torch.linspace(-1, 1, 12).view(3, 4))
    acted = typed("batch = module.act(batch)", module=module, batch=batch)["batch"]
    assert np.array_equal(acted.actions.numpy(), module.act(batch.observations.numpy()))
    policy = module.model(batch.observations)[0]
    assert torch.equal(acted.log_probs, log_prob(policy, acted.actions))
    valued = typed("batch = module.value(batch)", module=module, batch=acted)["batch"]
    assert valued.values.shape == (3,)
