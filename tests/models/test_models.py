"""Distributions against torch's own, heads for every supported space, the normalizer, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.networks.normalizer import Normalizer
from rlstudio.models.policies.distributions import (
    Categorical,
    Gaussian,
    MultiCategorical,
    SquashedGaussian,
    entropy,
    log_prob,
    mode,
    sample,
)
from rlstudio.models.policies.policy_value import PolicyOnly, PolicyValue
from rlstudio.models.policies.q_values import QValue

SMALL = NetworkConfig(hidden_sizes=(8,))
LINE = Box((3,), "float32", (-1,), (1,))
IMAGE = Box((40, 40, 3), "uint8", (0,), (255,))
seeds = st.integers(0, 10**6)


def draws(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(seeds)
def test_categorical_equals_torch(seed):
    logits, actions = 3 * draws(seed, 5, 4), torch.arange(5) % 4
    theirs = torch.distributions.Categorical(logits=logits)
    assert torch.allclose(log_prob(Categorical(logits), actions), theirs.log_prob(actions), atol=1e-5)
    assert torch.allclose(entropy(Categorical(logits)), theirs.entropy(), atol=1e-5)
    assert torch.equal(mode(Categorical(logits)), logits.argmax(-1))


@given(seeds)
def test_multi_categorical_is_the_product_of_its_parts(seed):
    logits, nvec = draws(seed, 6, 5), (2, 3)
    actions = torch.stack([torch.arange(6) % 2, torch.arange(6) % 3], -1)
    policy = MultiCategorical(logits, nvec)
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split(nvec, -1)]
    expected = sum(part.log_prob(actions[:, i]) for i, part in enumerate(parts))
    assert torch.allclose(log_prob(policy, actions), expected, atol=1e-5)
    assert torch.allclose(entropy(policy), sum(part.entropy() for part in parts), atol=1e-5)
    assert mode(policy).shape == (6, 2)


@given(seeds)
def test_gaussian_equals_torch(seed):
    mean, log_std, actions = draws(seed, 7, 2), draws(seed + 1, 1, 2), draws(seed + 2, 7, 2)
    theirs = torch.distributions.Normal(mean, log_std.exp())
    policy = Gaussian(mean, log_std)
    assert torch.allclose(log_prob(policy, actions), theirs.log_prob(actions).sum(-1), atol=1e-3)
    assert torch.allclose(entropy(policy), theirs.entropy().sum(-1), atol=1e-5)


@given(seeds)
def test_squashed_gaussian_equals_torch_transforms(seed):
    mean, log_std = draws(seed, 7, 2), 0.3 * draws(seed + 1, 7, 2) - 0.5
    scale, shift = torch.tensor([2.0, 0.5]), torch.tensor([1.0, 0.0])
    policy = SquashedGaussian(mean, log_std, scale, shift)
    actions = sample(policy, 0.5 * draws(seed + 2, 7, 2))
    base = torch.distributions.Normal(mean, log_std.exp())
    transforms = [torch.distributions.TanhTransform(), torch.distributions.AffineTransform(shift, scale)]
    theirs = torch.distributions.TransformedDistribution(base, transforms).log_prob(actions).sum(-1)
    assert torch.allclose(log_prob(policy, actions), theirs, rtol=1e-2, atol=1e-2)
    with pytest.raises(TypeError, match="no closed-form entropy"):
        entropy(policy)


def test_gumbel_noise_samples_the_softmax():
    logits = torch.tensor([1.0, 0.0, -1.0])
    uniform = torch.rand(200_000, 3, generator=torch.Generator().manual_seed(0))
    chosen = sample(Categorical(logits.expand(200_000, 3)), -torch.log(-torch.log(uniform)))
    shares = torch.bincount(chosen, minlength=3) / 200_000
    assert torch.allclose(shares, logits.softmax(-1), atol=0.005)


@given(seeds, st.lists(st.integers(1, 9), max_size=3), st.integers(1, 12))
def test_the_fused_tanh_network_equals_plain_modules_with_all_its_gradients(seed, hidden, rows):
    fused = MLP(3, hidden, 2, "tanh", Rng(seed))
    layers = [module for layer in fused.layers for module in (layer, torch.nn.Tanh())][:-1]
    plain = torch.nn.Sequential(*layers)
    x, weights = (2 * draws(seed, rows, 3)).requires_grad_(), draws(seed + 1, rows, 2)
    assert torch.allclose(fused(x), plain(x), atol=2e-6)
    inputs = [x, *fused.parameters()]
    ours = torch.autograd.grad((fused(x) * weights).sum(), inputs)
    theirs = torch.autograd.grad((plain(x) * weights).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)


OBSERVATIONS = {
    "box": (LINE, torch.zeros(5, 3)),
    "discrete": (Discrete(4), torch.arange(5) % 4),
    "multi_discrete": (MultiDiscrete((2, 3)), torch.zeros(5, 2, dtype=torch.int64)),
    "image": (IMAGE, torch.zeros(5, 40, 40, 3, dtype=torch.uint8)),
    "dict": (Dict((("a", LINE), ("b", Discrete(4)))), {"a": torch.zeros(5, 3), "b": torch.arange(5) % 4}),
}
ACTIONS = {"discrete": Discrete(3), "multi_discrete": MultiDiscrete((2, 4)), "box": Box((2,), "float32", (-1,), (1,))}


@pytest.mark.parametrize("seen", OBSERVATIONS)
@pytest.mark.parametrize("done", ACTIONS)
def test_policy_models_take_every_observation_and_action_space(seen, done):
    space, rows = OBSERVATIONS[seen]
    spaces = Spaces(space, ACTIONS[done])
    policy, values = build_model(PolicyValue, spaces, SMALL, Rng(0))(rows)
    assert values.shape == (5,)
    assert log_prob(policy, mode(policy)).shape == (5,)
    only = build_model(PolicyOnly, spaces, SMALL, Rng(0))(rows)
    assert torch.equal(mode(only), mode(policy))  # the same seed builds the same policy network


@pytest.mark.parametrize("seen", OBSERVATIONS)
def test_q_models_take_every_observation_space_and_discrete_actions_only(seen):
    space, rows = OBSERVATIONS[seen]
    assert build_model(QValue, Spaces(space, Discrete(3)), SMALL, Rng(0))(rows).shape == (5, 3)
    with pytest.raises(Incompatible, match=r"q-value Model needs Discrete actions.*Box"):
        build_model(QValue, Spaces(space, ACTIONS["box"]), SMALL, Rng(0))


def test_what_does_not_fit_is_refused_with_both_names():
    with pytest.raises(Incompatible, match=r"cnn needs uint8 images.*Box\(3,\)"):
        build_model(QValue, Spaces(LINE, Discrete(2)), NetworkConfig(kind="cnn"), Rng(0))
    with pytest.raises(Incompatible, match="no policy head for actions Dict"):
        build_model(PolicyValue, Spaces(LINE, Dict((("a", LINE),))), SMALL, Rng(0))
    with pytest.raises(Incompatible, match="at least 36 x 36"):
        build_model(QValue, Spaces(Box((8, 8, 3), "uint8", (0,), (255,)), Discrete(2)), SMALL, Rng(0))


def test_channels_may_come_first_or_last():
    first = Box((3, 40, 40), "uint8", (0,), (255,))
    rows = torch.randint(0, 255, (2, 40, 40, 3), dtype=torch.uint8)
    last_q = build_model(QValue, Spaces(IMAGE, Discrete(2)), SMALL, Rng(0))(rows)
    first_q = build_model(QValue, Spaces(first, Discrete(2)), SMALL, Rng(0))(rows.permute(0, 3, 1, 2))
    assert torch.allclose(last_q, first_q, atol=1e-6)


def test_weights_come_from_the_seed_alone():
    build = lambda seed: build_model(PolicyValue, Spaces(LINE, Discrete(2)), SMALL, Rng(seed)).state_dict()  # noqa: E731
    torch.manual_seed(0)
    one = build(3)
    torch.manual_seed(1)
    assert all(torch.equal(one[name], tensor) for name, tensor in build(3).items())
    assert not torch.equal(one["policy_net.layers.0.weight"], build(4)["policy_net.layers.0.weight"])


def test_orthogonal_layers_are_orthogonal():
    model = build_model(PolicyValue, Spaces(LINE, Discrete(2)), NetworkConfig(hidden_sizes=(16, 16)), Rng(0))
    weight = model.policy_net.layers[1].weight.detach()
    assert torch.allclose(weight @ weight.T, 2 * torch.eye(16), atol=1e-5)


def test_first_policies_are_nearly_uniform():
    policy, _ = build_model(PolicyValue, Spaces(LINE, Discrete(4)), NetworkConfig(), Rng(0))(draws(0, 20, 3))
    assert (policy.logits.softmax(-1) - 0.25).abs().max() < 0.02


def test_normalizer_standardises_and_is_the_identity_before_data():
    normalizer = Normalizer(2)
    rows = draws(0, 1000, 2) * torch.tensor([3.0, 0.1]) + torch.tensor([5.0, -2.0])
    assert torch.equal(normalizer(rows[:3].clamp(-10, 10)), rows[:3].clamp(-10, 10))
    for block in rows.split(100):
        normalizer.update(block)
    out = normalizer(rows)
    assert torch.allclose(out.mean(0), torch.zeros(2), atol=1e-4)
    assert torch.allclose(out.std(0), torch.ones(2), atol=1e-2)
    assert normalizer(torch.tensor([[1e9, 0.0]]))[0, 0] == 10.0
