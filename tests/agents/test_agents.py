"""Agents: kernels agree with the Model, acting is pure, and samples follow the policy."""

import numpy as np
import pytest
import torch

from rlstudio.agents.kernels import NumpyKernel, TorchKernel, acting_kernel
from rlstudio.agents.policy import PolicyAgent
from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.models.policies.q_values import QValue
from rlstudio.ops.flat import flatten

LINE = Box((3,), "float32", (-1,), (1,))
CHOICE = Spaces(LINE, Discrete(4))


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def shaken(model):
    data = flatten(model).data
    data.add_(0.5 * torch.randn(data.shape, generator=torch.Generator().manual_seed(1)))
    return model


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("n", [1, 5, 64])
def test_the_numpy_kernel_computes_what_the_model_computes(activation, normalize, n):
    network = NetworkConfig(hidden_sizes=(16, 8), activation=activation, normalize_observations=normalize)
    model = shaken(build_model(QValue, CHOICE, network, Rng(0)))
    kernel = acting_kernel(model)
    assert isinstance(kernel, NumpyKernel)
    if normalize:
        model.encoder.normalizer.update(torch.from_numpy(rows(100, 3) * 4 + 2))
    expected = model(torch.from_numpy(rows(n))).detach().numpy()
    np.testing.assert_allclose(kernel(rows(n)), expected, atol=2e-5)


def test_the_kernel_sees_every_change_of_the_weights():
    model = build_model(QValue, CHOICE, NetworkConfig(), Rng(0))
    kernel = acting_kernel(model)
    before = kernel(rows(2)).copy()
    shaken(model)
    assert not np.allclose(kernel(rows(2)), before)
    model.load_state_dict(build_model(QValue, CHOICE, NetworkConfig(), Rng(0)).state_dict())
    assert np.array_equal(kernel(rows(2)), before)


def test_bytes_are_scaled_on_both_paths():
    image = Spaces(Box((4, 4, 3), "uint8", (0,), (255,)), Discrete(2))
    model = build_model(QValue, image, NetworkConfig(kind="mlp"), Rng(0))
    rows = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), np.uint8)
    assert model.encoder(torch.from_numpy(rows)).max() <= 1.0
    expected = model(torch.from_numpy(rows)).argmax(1).numpy()
    assert np.array_equal(QValueAgent(model, image).step(rows).actions, expected)


def test_what_numpy_cannot_do_goes_through_torch():
    model = build_model(QValue, CHOICE, NetworkConfig(activation="gelu"), Rng(0))
    assert isinstance(acting_kernel(model), TorchKernel)
    space = Dict((("a", LINE), ("b", Discrete(2))))
    model = build_model(QValue, Spaces(space, Discrete(4)), NetworkConfig(), Rng(0))
    agent = QValueAgent(model, Spaces(space, Discrete(4)))
    assert agent.acting == "torch"
    assert agent.act({"a": rows(1)[0], "b": 1}) in range(4)
    assert agent.act({"a": rows(3), "b": np.array([0, 1, 0])}).shape == (3,)


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete((2, 3)), Box((2,), "float32", (-1, -1), (1, 1))])
def test_acting_is_a_pure_function(space):
    spaces = Spaces(LINE, space)
    agent = PolicyAgent(shaken(build_model(PolicyValue, spaces, NetworkConfig(), Rng(0))), spaces)
    noise = agent.noise(np.random.default_rng(0), 4, 6)
    first = agent.step(rows(6), None, noise[1]).actions.copy()
    agent.step(rows(6, 9), None, noise[2])
    assert np.array_equal(agent.step(rows(6), None, noise[1]).actions, first)
    assert first.shape == (6, *space.shape)


def test_samples_follow_the_policy_and_no_noise_is_its_mode():
    agent = PolicyAgent(shaken(build_model(PolicyValue, CHOICE, NetworkConfig(), Rng(0))), CHOICE)
    one = np.repeat(rows(1), 50_000, 0)
    chosen = agent.step(one, None, agent.noise(np.random.default_rng(0), 1, 50_000)[0]).actions
    expected = agent.model(torch.from_numpy(one[:1]))[0].logits.softmax(-1)[0].detach().numpy()
    np.testing.assert_allclose(np.bincount(chosen, minlength=4) / 50_000, expected, atol=0.01)
    assert agent.act(one[0]) == expected.argmax()


def test_continuous_actions_are_clipped_for_the_env_and_whole_for_learning():
    spaces = Spaces(LINE, Box((2,), "float32", (-0.1, -0.1), (0.1, 0.1)))
    agent = PolicyAgent(build_model(PolicyValue, spaces, NetworkConfig(log_std_init=1.0), Rng(0)), spaces)
    acted = agent.step(rows(100), None, agent.noise(np.random.default_rng(0), 1, 100)[0])
    assert np.abs(acted.actions).max() <= np.float32(0.1)
    assert np.abs(acted.columns["actions"]).max() > 1
    assert acted.actions.dtype == np.float32
    assert agent.act(rows(3)).dtype == np.float32


def test_an_agent_refuses_a_model_whose_outputs_are_for_another():
    told = "QValueAgent acts by values; the outputs of a policy-value Model are for policy"
    with pytest.raises(Incompatible, match=told):
        QValueAgent(build_model(PolicyValue, CHOICE, NetworkConfig(), Rng(0)), CHOICE)


def test_numbering_of_choices_starts_where_the_env_says():
    spaces = Spaces(LINE, Discrete(4, start=10))
    agent = QValueAgent(build_model(QValue, spaces, NetworkConfig(), Rng(0)), spaces)
    assert agent.act(rows(1)[0]) in range(10, 14)


def test_batches_can_be_given_actions_and_values():
    agent = PolicyAgent(build_model(PolicyValue, CHOICE, NetworkConfig(), Rng(0)), CHOICE)
    batch = Batch(observations=torch.from_numpy(rows(5)))
    acted = agent.with_actions(batch)
    logits = agent.model(batch.observations)[0].logits.log_softmax(-1)
    assert torch.equal(acted.actions, logits.argmax(-1))
    torch.testing.assert_close(acted.log_probs, logits.amax(-1))
    assert agent.with_values(batch).values.shape == (5,)


def test_values_and_certain_actions_have_no_log_probabilities():
    batch = Batch(observations=torch.from_numpy(rows(5)))
    agent = QValueAgent(build_model(QValue, CHOICE, NetworkConfig(), Rng(0)), CHOICE)
    assert agent.with_actions(batch).names == ("observations", "actions")
