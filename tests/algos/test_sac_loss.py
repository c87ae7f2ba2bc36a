"""SAC's losses against a slow implementation, value and gradient, and by hand."""

import math

import pytest
import torch

from rlstudio.algos.sac import SAC, SACConfig, sac_policy_loss, sac_q_loss
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.action_values import TwinQ
from rlstudio.models.policies.continuous import SquashedPolicy

SPACES = Spaces(Box((3,), "float32", (-1,), (1,)), Box((2,), "float32", (-2, 0), (2, 1)))
SCALE, SHIFT = torch.tensor([2.0, 0.5]), torch.tensor([0.0, 0.5])
ROWS = 12


def draws(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batch(seed, weighted=False):
    return Batch(
        observations=draws(seed, ROWS, 3),
        next_observations=draws(seed + 1, ROWS, 3),
        actions=torch.tanh(draws(seed + 2, ROWS, 2)) * SCALE + SHIFT,
        rewards=2 * draws(seed + 3, ROWS),
        terminated=draws(seed + 4, ROWS) > 0.5,
        truncated=draws(seed + 5, ROWS) > 0.5,
        discounts=draws(seed + 6, ROWS).sigmoid(),
        weights=draws(seed + 7, ROWS).sigmoid() if weighted else None,
    )


def models(seed, **network):
    chosen = NetworkConfig(hidden_sizes=(8, 7), **network)
    policy = build_model(SquashedPolicy, SPACES, chosen, Rng(seed))
    policy.log_temperature.data.fill_(-0.4)
    return policy, *(build_model(TwinQ, SPACES, chosen, Rng(seed + i)) for i in (1, 2))


def one_q(q: TwinQ, member: int, observation, action):
    """One network and one row, layer by layer."""
    x = torch.cat([observation, (action - SHIFT) / SCALE])
    layers = list(zip(q.q_nets.weights, q.q_nets.biases, strict=True))
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight[member] + bias[member, 0]
        x = x if i == len(layers) - 1 else getattr(torch, q.q_nets.activation)(x)
    return x[0]


def one_action(policy, observation, noise):
    """A reparameterised action, and torch's own density of it on [-1, 1]."""
    gaussian = policy(observation[None])
    base = torch.distributions.Normal(gaussian.mean[0], gaussian.log_std[0].exp())
    raw = base.mean + base.stddev * noise
    squashed = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform(cache_size=1)])
    unit = squashed.transforms[0](raw)
    return unit * SCALE + SHIFT, squashed.log_prob(unit).sum()


def mean(terms, weights):
    weights = torch.ones(ROWS) if weights is None else weights
    return (torch.stack(terms) * weights).sum() / weights.sum()


def slow_q_loss(q, target, policy, rows, noise):
    terms = []
    for i in range(ROWS):
        with torch.no_grad():
            action, log_prob = one_action(policy, rows.next_observations[i], noise[i])
            value = min(one_q(target, k, rows.next_observations[i], action) for k in (0, 1))
            value = value - policy.log_temperature.exp() * log_prob
            goal = rows.rewards[i] + (0.0 if rows.terminated[i] else rows.discounts[i] * value)
        errors = [one_q(q, k, rows.observations[i], rows.actions[i]) - goal for k in (0, 1)]
        terms.append(0.5 * (errors[0] ** 2 + errors[1] ** 2))
    return mean(terms, rows.weights)


def slow_policy_loss(policy, q, rows, noise, target_entropy):
    policy_terms, temperature_terms = [], []
    for i in range(ROWS):
        action, log_prob = one_action(policy, rows.observations[i], noise[i])
        value = min(one_q(q, k, rows.observations[i], action) for k in (0, 1))
        policy_terms.append(policy.log_temperature.exp().detach() * log_prob - value)
        temperature_terms.append(-policy.log_temperature * (log_prob.detach() + target_entropy))
    return mean(policy_terms, rows.weights) + mean(temperature_terms, rows.weights)


def gradients(model, loss):
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten()
                      for p, g in zip(model.parameters(), found, strict=True)])  # fmt: skip


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_q_loss_equals_a_slow_implementation(activation, weighted, seed):
    policy, q, target = models(seed, activation=activation)
    rows, noise = batch(seed, weighted), draws(seed + 20, ROWS, 2)
    loss, metrics = sac_q_loss(q, target, policy, rows, noise)
    expected = slow_q_loss(q, target, policy, rows, noise)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert metrics["q_loss"].item() == loss.item()
    assert torch.allclose(gradients(q, loss), gradients(q, expected), atol=1e-5)


NETWORKS = {
    "relu": {"activation": "relu"},
    "tanh": {"activation": "tanh"},
    "state_dependent": {"activation": "relu", "exploration": "state_dependent", "log_std_init": -1},
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_policy_loss_equals_a_slow_implementation(network, weighted, seed):
    policy, q, _ = models(seed, **network)
    rows, noise = batch(seed, weighted), draws(seed + 20, ROWS, 2)
    loss, metrics = sac_policy_loss(policy, q, rows, noise, target_entropy=-2.0)
    expected = slow_policy_loss(policy, q, rows, noise, target_entropy=-2.0)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert torch.allclose(gradients(policy, loss), gradients(policy, expected), atol=2e-5)
    loss, _ = sac_policy_loss(policy, q, rows, noise, target_entropy=-2.0)
    assert not gradients(q, loss).any()
    assert metrics["temperature"].item() == pytest.approx(math.exp(-0.4))


def test_by_hand():
    """Networks without weights: Q = (3, 1), Q_target = (5, 4), mean 0, std 1, temperature 1/2, noise zero.

    The action is the middle of the bounds, with density N(0; 0, 1)^2 on [-1, 1]: log pi = -log 2 pi.
    """
    policy, q, target = models(0)
    with torch.no_grad():
        for net, bias in ((q, (3.0, 1.0)), (target, (5.0, 4.0))):
            for parameter in net.parameters():
                parameter.zero_()
            net.q_nets.biases[-1].copy_(torch.tensor(bias).view(2, 1, 1))
        for parameter in policy.parameters():
            parameter.zero_()
        policy.log_temperature.fill_(math.log(0.5))
    rows = Batch(
        observations=torch.zeros(2, 3),
        next_observations=torch.zeros(2, 3),
        actions=torch.zeros(2, 2),
        rewards=torch.tensor([1.0, 2.0]),
        terminated=torch.tensor([False, True]),
        truncated=torch.tensor([True, False]),
        discounts=torch.tensor([0.5, 0.5]),
    )
    log_pi = -math.log(2 * math.pi)
    goal = 1 + 0.5 * (4 - 0.5 * log_pi)  # cut by a time limit: bootstraps; the other died: 2
    loss, metrics = sac_q_loss(q, target, policy, rows, torch.zeros(2, 2))
    assert loss.item() == pytest.approx((((3 - goal) ** 2 + (1 - goal) ** 2) / 2 + (1 + 1) / 2) / 2)
    assert metrics["target"].item() == pytest.approx((goal + 2) / 2)
    loss, metrics = sac_policy_loss(policy, q, rows, torch.zeros(2, 2), target_entropy=-2.0)
    assert metrics["entropy"].item() == pytest.approx(-log_pi)
    assert metrics["policy_loss"].item() == pytest.approx(0.5 * log_pi - 1)
    assert loss.item() == pytest.approx(0.5 * log_pi - 1 + math.log(0.5) * (-log_pi + 2))
    # Entropy above its target: the temperature's gradient is positive, so it falls.
    (slope,) = torch.autograd.grad(loss, policy.log_temperature)
    assert slope.item() == pytest.approx(-log_pi + 2)


def trainer(env_id="Pendulum-v1", network=None, **fields) -> SAC:
    runtime = LocalRuntime(make_vec_env(EnvConfig(id=env_id, num_envs=2, seed=3)), replay_capacity=64)
    return SAC(SACConfig(learning_starts=16, batch_size=8, **fields), runtime, network or NetworkConfig(), Rng(0))


def test_a_fixed_temperature_stays_and_a_learned_one_moves():
    fixed, learned = trainer(temperature=0.3), trainer(temperature_init=0.3)
    for chosen in (fixed, learned):
        for _ in range(3):
            chosen.train_step()
    assert fixed.model.log_temperature.exp().item() == pytest.approx(0.3)
    assert learned.model.log_temperature.exp().item() != pytest.approx(0.3, abs=1e-5)


def test_a_poisoned_batch_moves_no_target_and_no_moment():
    chosen = trainer()
    chosen.train_step()
    rows = chosen.source.last
    before = chosen.target.flat.data.clone(), chosen.policy_optimizer.mean.clone(), chosen.optimizer.mean.clone()
    chosen.update(rows.with_(rewards=torch.full_like(rows.rewards, torch.inf)))
    after = chosen.target.flat.data, chosen.policy_optimizer.mean, chosen.optimizer.mean
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    chosen.update(rows)
    assert not torch.equal(before[0], chosen.target.flat.data)


def test_the_schedule_of_the_learning_rate_reaches_every_network():
    chosen = trainer(lr=1e-2, lr_schedule="linear")
    chosen.progress(0.75)
    assert chosen.optimizer.lr.item() == chosen.policy_optimizer.lr.item() == pytest.approx(2.5e-3)


def test_what_does_not_fit_is_refused():
    with pytest.raises(Incompatible, match=r"sac needs Box actions; the env takes Discrete\(2\)"):
        trainer("CartPole-v1")
    with pytest.raises(Incompatible, match="sac keeps no running statistics"):
        trainer(network=NetworkConfig(normalize_observations=True))
    endless = Spaces(SPACES.observation, Box((1,), "float32", (-math.inf,), (math.inf,)))
    with pytest.raises(Incompatible, match="actions without bounds"):
        build_model(SquashedPolicy, endless, NetworkConfig(), Rng(0))
    with pytest.raises(Incompatible, match="needs a row of numbers as actions"):
        build_model(TwinQ, Spaces(SPACES.observation, Discrete(2)), NetworkConfig(), Rng(0))
