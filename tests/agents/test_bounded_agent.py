"""Agents of bounded policies, and state-dependent noise: what acts is what the Model says, and noise is held."""

import numpy as np
import pytest
import torch

from rlstudio.agents.bounded import BoundedAgent
from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.policies.distributions import mode, sample
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.ops.flat import flatten

LINE = Box((3,), "float32", (-1,), (1,))
SPACES = Spaces(LINE, Box((2,), "float32", (-2, 0), (2, 1)))
HELD = {"exploration": "state_dependent", "exploration_hold": 4, "log_std_init": -0.5}


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def shaken(model):
    data = flatten(model).data
    data.add_(0.3 * torch.randn(data.shape, generator=torch.Generator().manual_seed(1)))
    return model


def agent_of(kind, variant, **network):
    model = shaken(build_model(variant, SPACES, NetworkConfig(hidden_sizes=(16, 8), **network), Rng(0)))
    return kind(model, SPACES)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("n", [1, 7])
def test_the_agent_does_what_the_model_says(activation, n):
    observations = torch.from_numpy(rows(n))
    squashed = agent_of(BoundedAgent, SquashedPolicy, activation=activation)
    assert squashed.acting == ("torch" if activation == "gelu" else "numpy")
    with torch.no_grad():
        policy = squashed.model(observations)
    noise = squashed.noise(np.random.default_rng(0), 3, n)[1]
    expected = sample(policy, torch.from_numpy(noise)).numpy()
    np.testing.assert_allclose(squashed.step(rows(n), None, noise).actions, expected, atol=1e-5)
    np.testing.assert_allclose(squashed.step(rows(n)).actions, mode(policy).numpy(), atol=1e-5)
    assert "actions" not in squashed.step(rows(n), None, noise).columns  # learning sees what the environment got

    certain = agent_of(BoundedAgent, DeterministicPolicy, activation=activation)
    with torch.no_grad():
        expected = certain.model(observations).numpy()
    noise = certain.noise(np.random.default_rng(0), 3, n)[1]
    assert noise.size == 0
    np.testing.assert_allclose(certain.step(rows(n), None, noise).actions, expected, atol=1e-5)


def test_actions_have_the_dtype_of_the_space_and_stay_inside():
    spaces = Spaces(LINE, Box((2,), "float64", (-0.3, 0.1), (0.3, 0.2)))
    model = shaken(build_model(SquashedPolicy, spaces, NetworkConfig(log_std_init=2.0), Rng(0)))
    agent = BoundedAgent(model, spaces)
    actions = agent.step(rows(500), None, agent.noise(np.random.default_rng(0), 1, 500)[0]).actions
    assert actions.dtype == np.float64
    assert (actions >= [-0.3, 0.1]).all()
    assert (actions <= [0.3, 0.2]).all()


BOTH = [(BoundedAgent, SquashedPolicy), (PolicyAgent, PolicyValue)]


@pytest.mark.parametrize(("kind", "variant"), BOTH)
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_held_noise_is_a_function_of_the_state_until_it_is_drawn_anew(kind, variant, activation):
    agent = agent_of(kind, variant, activation=activation, **HELD)
    noise = agent.noise(np.random.default_rng(0), 10, 6)
    assert len(noise) == 10
    acted = [agent.step(rows(6), None, noise[step]).actions.copy() for step in range(10)]
    for start, stop in ((0, 4), (4, 8), (8, 10)):
        assert all(np.array_equal(acted[start], acted[step]) for step in range(start, stop))
    assert not np.allclose(acted[3], acted[4])
    assert not np.allclose(acted[7], acted[8])
    same = np.repeat(rows(1), 6, 0)
    assert len(np.unique(agent.step(same, None, noise[0]).actions, axis=0)) == 6  # a matrix for each environment


@pytest.mark.parametrize(("kind", "variant"), BOTH)
def test_held_noise_follows_the_policy_that_learning_sees(kind, variant):
    agent = agent_of(kind, variant, **HELD)
    n = 20_000
    noise = agent.noise(np.random.default_rng(0), 1, n)[0]
    acted = agent.step(np.repeat(rows(1), n, 0), None, noise)
    with torch.no_grad():
        outputs = agent.model(torch.from_numpy(rows(1)))
    if kind is PolicyAgent:
        policy, actions = outputs[0], acted.columns["actions"]
    else:
        policy, actions = outputs, np.arctanh(((acted.actions - [0, 0.5]) / [2, 0.5]).clip(-0.999999, 0.999999))
    np.testing.assert_allclose(np.median(actions, 0), policy.mean[0], atol=0.05)
    quartiles = np.subtract(*np.quantile(actions, [0.75, 0.25], axis=0)) / 1.349  # of a normal distribution, its std
    np.testing.assert_allclose(quartiles, policy.log_std.exp()[0], rtol=0.05)


@pytest.mark.parametrize(("kind", "variant"), BOTH)
def test_without_noise_the_action_is_the_mode(kind, variant):
    agent = agent_of(kind, variant, **HELD)
    with torch.no_grad():
        outputs = agent.model(torch.from_numpy(rows(5)))
    policy = outputs[0] if kind is PolicyAgent else outputs
    low, high = SPACES.action.bounds()
    np.testing.assert_allclose(agent.step(rows(5)).actions, np.clip(mode(policy).numpy(), low, high), atol=1e-5)


def test_it_acts_on_dicts_and_single_observations():
    space = Dict((("a", LINE), ("b", Discrete(2))))
    spaces = Spaces(space, SPACES.action)
    agent = BoundedAgent(build_model(SquashedPolicy, spaces, NetworkConfig(**HELD), Rng(0)), spaces)
    assert agent.acting == "torch"
    assert agent.act({"a": rows(1)[0], "b": 1}).shape == (2,)
    noise = agent.noise(np.random.default_rng(0), 2, 3)[0]
    assert agent.step({"a": rows(3), "b": np.array([0, 1, 0])}, None, noise).actions.shape == (3, 2)
