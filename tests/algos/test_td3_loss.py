"""TD3's losses against a slow implementation, value and gradient, by hand; its delays and its noise."""

import pytest
import torch

from rlstudio.algos.td3 import TD3, TD3Config, td3_policy_loss, td3_q_loss
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.action_values import TwinQ
from rlstudio.models.policies.continuous import DeterministicPolicy

SPACES = Spaces(Box((3,), "float32", (-1,), (1,)), Box((2,), "float32", (-2, 0), (2, 1)))
LOW, HIGH = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])
ROWS = 12


def draws(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batch(seed, weighted=False):
    return Batch(
        observations=draws(seed, ROWS, 3),
        next_observations=draws(seed + 1, ROWS, 3),
        actions=LOW + draws(seed + 2, ROWS, 2).sigmoid() * (HIGH - LOW),
        rewards=2 * draws(seed + 3, ROWS),
        terminated=draws(seed + 4, ROWS) > 0.5,
        truncated=draws(seed + 5, ROWS) > 0.5,
        discounts=draws(seed + 6, ROWS).sigmoid(),
        weights=draws(seed + 7, ROWS).sigmoid() if weighted else None,
    )


def models(seed, activation="relu"):
    network = NetworkConfig(hidden_sizes=(8, 7), activation=activation)
    policy = build_model(DeterministicPolicy, SPACES, network, Rng(seed))
    return policy, *(build_model(TwinQ, SPACES, network, Rng(seed + i)) for i in (1, 2))


def one_q(q, member, observation, action):
    """One network and one row, layer by layer."""
    x = torch.cat([observation, 2 * (action - LOW) / (HIGH - LOW) - 1])
    layers = list(zip(q.q_nets.weights, q.q_nets.biases, strict=True))
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight[member] + bias[member, 0]
        x = x if i == len(layers) - 1 else getattr(torch, q.q_nets.activation)(x)
    return x[0]


def mean(terms, weights):
    weights = torch.ones(ROWS) if weights is None else weights
    return (torch.stack(terms) * weights).sum() / weights.sum()


def slow_q_loss(q, target, policy_target, rows, noise, cfg):
    terms = []
    for i in range(ROWS):
        with torch.no_grad():
            push = [
                max(-cfg.target_noise_clip, min(cfg.target_noise_clip, cfg.target_noise * float(n))) for n in noise[i]
            ]
            action = policy_target(rows.next_observations[i : i + 1])[0] + torch.tensor(push) * (HIGH - LOW) / 2
            action = torch.minimum(torch.maximum(action, LOW), HIGH)
            value = min(one_q(target, k, rows.next_observations[i], action) for k in (0, 1))
            goal = rows.rewards[i] + (0.0 if rows.terminated[i] else rows.discounts[i] * value)
        errors = [one_q(q, k, rows.observations[i], rows.actions[i]) - goal for k in (0, 1)]
        terms.append(0.5 * (errors[0] ** 2 + errors[1] ** 2))
    return mean(terms, rows.weights)


def slow_policy_loss(policy, q, rows):
    actions = policy(rows.observations)
    return -mean([one_q(q, 0, rows.observations[i], actions[i]) for i in range(ROWS)], rows.weights)


def gradients(model, loss):
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_losses_equal_slow_implementations(activation, weighted, seed):
    policy, q, target = models(seed, activation)
    rows, noise, cfg = batch(seed, weighted), 3 * draws(seed + 20, ROWS, 2), TD3Config()
    loss, _ = td3_q_loss(q, target, policy, rows, noise, cfg)
    expected = slow_q_loss(q, target, policy, rows, noise, cfg)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert torch.allclose(gradients(q, loss), gradients(q, expected), atol=1e-5)

    loss, expected = td3_policy_loss(policy, q, rows), slow_policy_loss(policy, q, rows)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradients(policy, loss), gradients(policy, expected), atol=1e-5)
    assert not any(part is not None for part in torch.autograd.grad(
        td3_policy_loss(policy, q, rows), list(q.parameters()), allow_unused=True))  # fmt: skip


def test_by_hand():
    """Networks without weights: Q = (3, 1), Q_target = (5, 4). One row was cut by a time limit, the other died."""
    policy, q, target = models(0)
    with torch.no_grad():
        for net, bias in ((q, (3.0, 1.0)), (target, (5.0, 4.0))):
            for parameter in net.parameters():
                parameter.zero_()
            net.q_nets.biases[-1].copy_(torch.tensor(bias).view(2, 1, 1))
    rows = Batch(
        observations=torch.zeros(2, 3),
        next_observations=torch.zeros(2, 3),
        actions=torch.zeros(2, 2),
        rewards=torch.tensor([1.0, 2.0]),
        terminated=torch.tensor([False, True]),
        truncated=torch.tensor([True, False]),
        discounts=torch.tensor([0.5, 0.5]),
    )
    loss, metrics = td3_q_loss(q, target, policy, rows, torch.zeros(2, 2), TD3Config())
    # y = 1 + 0.5 * 4 = 3 and y = 2: errors (0, -2) and (1, -1).
    assert metrics["target"].item() == 2.5
    assert loss.item() == pytest.approx(((0 + 4) / 2 + (1 + 1) / 2) / 2)
    assert td3_policy_loss(policy, q, rows).item() == -3.0  # the first network alone


def trainer(**fields) -> TD3:
    runtime = LocalRuntime(make_vec_env(EnvConfig(id="Pendulum-v1", num_envs=2, seed=3)), replay_capacity=64)
    return TD3(TD3Config(learning_starts=16, batch_size=8, **fields), runtime, NetworkConfig(), Rng(0))


def test_policy_and_targets_wait():
    chosen = trainer(policy_delay=3, tau=0.5)
    parts = [chosen.policy_optimizer.flat, chosen.target.flat, chosen.policy_target.flat]
    changed = []
    for _ in range(7):
        before = [part.data.clone() for part in parts]
        chosen.train_step()
        changed.append([not torch.equal(old, part.data) for old, part in zip(before, parts, strict=True)])
    assert changed == [[False] * 3, [False] * 3, [True] * 3] * 2 + [[False] * 3]
    assert chosen.optimizer.calls == 7
    assert chosen.policy_optimizer.calls == 2


def test_a_poisoned_batch_moves_nothing():
    chosen = trainer(policy_delay=1)
    chosen.train_step()
    rows = chosen.source.last
    parts = [chosen.policy_optimizer.flat, chosen.target.flat, chosen.policy_target.flat]
    before = [part.data.clone() for part in parts]
    chosen.update(rows.with_(rewards=torch.full_like(rows.rewards, torch.nan)))
    assert all(torch.equal(old, part.data) for old, part in zip(before, parts, strict=True))
    chosen.update(rows)
    assert not any(torch.equal(old, part.data) for old, part in zip(before, parts, strict=True))


def test_a_deterministic_policy_has_no_noise_of_its_own_to_shape():
    runtime = LocalRuntime(make_vec_env(EnvConfig(id="Pendulum-v1", num_envs=1, seed=3)), replay_capacity=64)
    with pytest.raises(Incompatible, match="exploration: td3 explores by train"):
        TD3(TD3Config(), runtime, NetworkConfig(exploration="state_dependent"), Rng(0))
