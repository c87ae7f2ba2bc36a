"""Ensembles, twin values and bounded policies: against plain torch, with all their gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.models.build import build_model, build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.ensemble import EnsembleMLP
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.policies.action_values import TwinQ
from rlstudio.models.policies.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.policies.distributions import SquashedGaussian, log_prob, sample, sample_with_log_prob
from rlstudio.ops.target import Target

LINE = Box((3,), "float32", (-1,), (1,))
SPACES = Spaces(LINE, Box((2,), "float32", (-2, 0), (2, 1)))
seeds = st.integers(0, 10**6)


def draws(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def plain(ensemble: EnsembleMLP, member: int) -> torch.nn.Sequential:
    """One member as torch modules with the same weights."""
    modules = []
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        layer = torch.nn.Linear(*weight.shape[1:])
        layer.weight.data, layer.bias.data = weight[member].detach().t().clone(), bias[member, 0].detach().clone()
        modules += [layer, {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[ensemble.activation]()]
    return torch.nn.Sequential(*modules[:-1])


@given(
    seeds,
    st.lists(st.integers(1, 9), max_size=3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from(["relu", "tanh"]),
)
def test_an_ensemble_is_its_members_with_all_their_gradients(seed, hidden, rows, outputs, activation):
    ensemble = EnsembleMLP(3, 4, hidden, outputs, activation, Rng(seed))
    x, towards = draws(seed, rows, 4).requires_grad_(), draws(seed + 1, 3, rows, outputs)
    members = [plain(ensemble, k) for k in range(3)]
    ours, theirs = ensemble(x), torch.stack([member(x) for member in members])
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert torch.allclose(ensemble.first(x), theirs[0], atol=1e-5)
    (ours * towards).sum().backward()
    mine, x.grad = x.grad, None
    (theirs * towards).sum().backward()
    assert torch.allclose(mine, x.grad, atol=1e-4)
    for k, member in enumerate(members):
        layers = [module for module in member if isinstance(module, torch.nn.Linear)]
        for i, layer in enumerate(layers):
            assert torch.allclose(ensemble.weights[i].grad[k], layer.weight.grad.t(), atol=1e-4)
            assert torch.allclose(ensemble.biases[i].grad[k, 0], layer.bias.grad, atol=1e-4)


@given(seeds, st.lists(st.integers(1, 9), max_size=3), st.integers(1, 12), st.sampled_from(["relu", "tanh"]))
def test_the_lowest_output_has_the_gradient_of_the_member_that_gave_it(seed, hidden, rows, activation):
    ensemble = EnsembleMLP(2, 4, hidden, 1, activation, Rng(seed))
    x, towards = draws(seed, rows, 4).requires_grad_(), draws(seed + 1, rows)
    lowest, expected = ensemble.lowest(x), torch.stack([plain(ensemble, k)(x) for k in (0, 1)]).squeeze(-1).amin(0)
    assert torch.allclose(lowest, expected, atol=1e-5)
    mine, theirs = (torch.autograd.grad((value * towards).sum(), x)[0] for value in (lowest, expected))
    assert torch.allclose(mine, theirs, atol=1e-4)
    assert all(parameter.grad is None for parameter in ensemble.parameters())


def test_members_start_apart_and_like_any_network():
    ensemble = EnsembleMLP(2, 64, [256], 1, "relu", Rng(0))
    for weight in ensemble.weights:
        assert not torch.equal(weight[0], weight[1])
        bound = weight.shape[1] ** -0.5
        assert bound * 0.99 < weight.abs().max() <= bound
    single = MLP(64, [256], 1, "relu", Rng(0), gain=None)
    assert ensemble.weights[0].std().item() == pytest.approx(single.layers[0].weight.std().item(), rel=0.02)


def test_a_target_of_twin_values_moves_with_them():
    q = build_model(TwinQ, SPACES, NetworkConfig(hidden_sizes=(8,)), Rng(0))
    target = Target(q)
    rows = draws(0, 5, 3), draws(1, 5, 2)
    before = target.model(*rows)
    assert torch.equal(before, q(*rows))
    q.q_nets.biases[-1].data.add_(1.0)
    assert torch.equal(target.model(*rows), before)
    target.refresh(tau=0.25, skip=torch.tensor(True))
    assert torch.equal(target.model(*rows), before)
    target.refresh(tau=0.25, skip=torch.tensor(False))
    assert torch.allclose(target.model(*rows), before + 0.25, atol=1e-6)


OBSERVATIONS = {
    "box": (LINE, torch.zeros(5, 3)),
    "image": (Box((40, 40, 3), "uint8", (0,), (255,)), torch.zeros(5, 40, 40, 3, dtype=torch.uint8)),
    "dict": (Dict((("a", LINE), ("b", Discrete(4)))), {"a": torch.zeros(5, 3), "b": torch.arange(5) % 4}),
}


@pytest.mark.parametrize("seen", OBSERVATIONS)
def test_they_take_every_observation_space(seen):
    space, rows = OBSERVATIONS[seen]
    spaces, network = Spaces(space, SPACES.action), NetworkConfig(hidden_sizes=(8,), activation="relu")
    actions = build_model(DeterministicPolicy, spaces, network, Rng(0))(rows)
    policy = build_model(SquashedPolicy, spaces, network, Rng(0))(rows)
    q = build_model(TwinQ, spaces, network, Rng(0))
    assert actions.shape == policy.mean.shape == policy.log_std.shape == (5, 2)
    assert q(rows, actions).shape == (2, 5)
    assert torch.allclose(q.lowest(rows, actions), q(rows, actions).amin(0), atol=1e-6)
    assert torch.allclose(q.first(rows, actions), q(rows, actions)[0], atol=1e-6)
    (towards,) = torch.autograd.grad(q.lowest(rows, actions).sum(), actions)
    assert towards.abs().sum() > 0


@given(seeds)
def test_actions_fill_the_bounds_and_never_leave_them(seed):
    policy = build_model(DeterministicPolicy, SPACES, NetworkConfig(hidden_sizes=(8,)), Rng(seed))
    policy.policy_net.layers[-1].weight.data.mul_(100)
    actions = policy(draws(seed, 200, 3))
    low, high = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])
    assert ((actions >= low) & (actions <= high)).all()
    assert (actions.amax(0) > high - 0.2 * (high - low)).any()


@given(seeds)
def test_a_sample_and_its_density_agree_with_the_two_apart(seed):
    scale, shift = torch.tensor([2.0, 0.5]), torch.tensor([0.0, 0.5])
    policy = SquashedGaussian(draws(seed, 7, 2), 0.3 * draws(seed + 1, 7, 2) - 0.5, scale, shift)
    noise = 0.5 * draws(seed + 2, 7, 2)
    actions, log_probs = sample_with_log_prob(policy, noise)
    assert torch.allclose(actions, sample(policy, noise))
    unit = SquashedGaussian(policy.mean, policy.log_std, torch.ones(2), torch.zeros(2))
    assert torch.allclose(log_probs, log_prob(unit, (actions - shift) / scale), rtol=1e-2, atol=1e-2)


def test_densities_stay_finite_far_out():
    policy = SquashedGaussian(torch.tensor([[60.0]]), torch.tensor([[2.0]]), torch.ones(1), torch.zeros(1))
    actions, log_probs = sample_with_log_prob(policy, torch.tensor([[3.0]]))
    assert actions.item() == 1.0
    assert np.isfinite(log_probs.item())


@given(seeds)
def test_state_dependent_noise_has_the_width_that_learning_sees(seed):
    """h(s) W over many W against the closed form."""
    network = NetworkConfig(hidden_sizes=(6,), exploration="state_dependent", log_std_init=-0.7)
    policy = build_model(SquashedPolicy, SPACES, network, Rng(seed))
    observations = draws(seed, 4, 3)
    log_std = policy(observations).log_std
    hidden = policy.policy_net.hidden(observations)
    matrices = draws(seed + 1, 20_000, 6, 2) * np.exp(-0.7)
    pushes = torch.einsum("nh,mhd->mnd", hidden, matrices)
    assert torch.allclose(pushes.std(0), log_std.exp(), rtol=0.04, atol=2e-3)


def test_the_first_width_is_the_one_asked_for():
    network = NetworkConfig(hidden_sizes=(8,), log_std_init=-1.5)
    policy = build_model(SquashedPolicy, SPACES, network, Rng(0))(draws(0, 50, 3))
    assert policy.log_std.mean().item() == pytest.approx(-1.5, abs=0.5)


def test_state_dependent_noise_that_does_not_fit_is_refused():
    held = {"exploration": "state_dependent"}
    with pytest.raises(Incompatible, match=r"state_dependent needs Box actions, not Discrete\(2\)"):
        build_policy_value(Spaces(LINE, Discrete(2)), NetworkConfig(**held), Rng(0))
    with pytest.raises(Incompatible, match="needs a hidden layer"):
        build_policy_value(SPACES, NetworkConfig(hidden_sizes=(), **held), Rng(0))
    with pytest.raises(Incompatible, match=r"a policy with memory \(gru\) has no state_dependent noise"):
        build_policy_value(SPACES, NetworkConfig(memory="gru", **held), Rng(0))
