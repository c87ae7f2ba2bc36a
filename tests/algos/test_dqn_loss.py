"""The losses of DQN and QR-DQN against independent slow implementations, and against examples worked by hand."""

from functools import partial

import pytest
import torch

from rlstudio.algos.dqn import dqn_loss
from rlstudio.algos.parts.q_learning import CHOOSE
from rlstudio.algos.qrdqn import qrdqn_loss
from rlstudio.core.batch import Batch
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import QuantileValue, QValue

CHOICES = Spaces(Box((3,), "float32", (-1,), (1,)), Discrete(4))
SMALL = NetworkConfig(hidden_sizes=(8,))


def draws(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), allow_unused=False)])


def sampled(seed: int, weighted: bool) -> Batch:
    return Batch(
        observations=draws(seed, 12, 3),
        next_observations=draws(seed + 1, 12, 3),
        actions=torch.arange(12) % 4,
        rewards=2 * draws(seed + 2, 12),
        terminated=draws(seed + 3, 12) > 0.5,
        truncated=draws(seed + 4, 12) > 0.5,
        discounts=torch.full((12,), 0.9),
        weights=draws(seed + 5, 12).clamp(min=0) if weighted else None,
    )


def huber(error: torch.Tensor, kappa: float) -> torch.Tensor:
    return 0.5 * error**2 if error.abs() < kappa else kappa * (error.abs() - 0.5 * kappa)


def average(terms: list, batch: Batch) -> torch.Tensor:
    weights = torch.ones(len(terms)) if batch.weights is None else batch.weights
    return (torch.stack(terms) * weights).sum() / weights.sum()


def slow_dqn(model, target, batch, double):
    terms, errors = [], []
    for i in range(len(batch)):
        following = batch.next_observations[i : i + 1]
        with torch.no_grad():
            values = target(following)[0]
            choice = model(following)[0].argmax() if double else values.argmax()
            goal = batch.rewards[i] + (0.0 if batch.terminated[i] else batch.discounts[i] * values[choice])
        errors.append(model(batch.observations[i : i + 1])[0, batch.actions[i]] - goal)
        terms.append(huber(errors[-1], 1.0))
    return average(terms, batch), torch.stack(errors)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_dqn_equals_a_slow_implementation(double, dueling, weighted, seed):
    variant = partial(QValue, dueling=dueling)
    model, target = (build_model(variant, CHOICES, SMALL, Rng(seed + i)) for i in range(2))
    batch = sampled(seed, weighted)
    loss, errors, _ = dqn_loss(model, target, batch, CHOOSE[double])
    expected, expected_errors = slow_dqn(model, target, batch, double)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(errors, expected_errors, atol=1e-6)
    assert not errors.requires_grad
    assert torch.allclose(gradients(model, loss), gradients(model, expected), atol=1e-6)


def biased(model, bias: list[float]):
    """The Model with all weights zero: its outputs are its last biases."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.q_net.layers[-1].bias.copy_(torch.tensor(bias))
    return model


def test_dqn_by_hand():
    """Q is its bias: Q = [1, 2, 0, 0], target [5, 3, 0, 0]. Double picks action 1 (its own argmax), worth 3."""
    model = biased(build_model(QValue, CHOICES, SMALL, Rng(0)), [1.0, 2, 0, 0])
    target = biased(build_model(QValue, CHOICES, SMALL, Rng(1)), [5.0, 3, 0, 0])
    batch = Batch(
        observations=torch.zeros(2, 3),
        next_observations=torch.zeros(2, 3),
        actions=torch.tensor([0, 0]),
        rewards=torch.tensor([1.0, 1.25]),
        terminated=torch.tensor([False, True]),
        truncated=torch.tensor([True, False]),
        discounts=torch.tensor([0.5, 0.5]),
    )
    # Row 0 was truncated: y = 1 + 0.5 * 3 = 2.5 (error 1.5, huber 1.0). Row 1 died: y = 1.25 (error .25, .03125).
    loss, errors, _ = dqn_loss(model, target, batch, CHOOSE[True])
    assert loss.item() == pytest.approx((1.0 + 0.03125) / 2)
    assert errors.tolist() == [-1.5, -0.25]
    # Plain DQN takes the target's own maximum: y = 1 + 0.5 * 5 = 3.5 (error 2.5, huber 2.0).
    assert dqn_loss(model, target, batch, CHOOSE[False])[0].item() == pytest.approx((2.0 + 0.03125) / 2)


def slow_qrdqn(model, target, batch, double, kappa):
    """One pair of quantiles after the other, in the words of the paper."""
    terms = []
    for i in range(len(batch)):
        following = batch.next_observations[i : i + 1]
        with torch.no_grad():
            chooser = model(following)[0] if double else target(following)[0]
            choice = max(range(4), key=lambda a: float(chooser[a].mean()))
            discount = 0.0 if batch.terminated[i] else batch.discounts[i]
            goals = [batch.rewards[i] + discount * quantile for quantile in target(following)[0, choice]]
        quantiles = model(batch.observations[i : i + 1])[0, batch.actions[i]]
        total = torch.zeros(())
        for k, quantile in enumerate(quantiles):
            tau = (k + 0.5) / len(quantiles)
            for goal in goals:
                u = goal - quantile
                total = total + abs(tau - float(u < 0)) * huber(u, kappa) / len(goals)
        terms.append(total)
    return average(terms, batch), torch.stack(terms)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("kappa", [1.0, 0.3])
@pytest.mark.parametrize(("weighted", "seed"), [(False, 0), (True, 1)])
def test_qrdqn_equals_a_slow_implementation(double, dueling, kappa, weighted, seed):
    variant = partial(QuantileValue, quantiles=5, dueling=dueling)
    model, target = (build_model(variant, CHOICES, SMALL, Rng(seed + i)) for i in range(2))
    batch = sampled(seed, weighted)
    loss, shares, _ = qrdqn_loss(model, target, batch, CHOOSE[double], kappa)
    expected, expected_shares = slow_qrdqn(model, target, batch, double, kappa)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(shares, expected_shares, atol=1e-5)
    assert not shares.requires_grad
    assert torch.allclose(gradients(model, loss), gradients(model, expected), atol=1e-5)


def test_qrdqn_by_hand():
    """Two quantiles (taus 1/4 and 3/4) of two choices, which are the biases: means decide, not the highest quantile."""
    spaces = Spaces(CHOICES.observation, Discrete(2))
    variant = partial(QuantileValue, quantiles=2)
    model = biased(build_model(variant, spaces, SMALL, Rng(0)), [0.0, 1.0, 7.0, 7.0])  # means 0.5 and 7
    target = biased(build_model(variant, spaces, SMALL, Rng(1)), [2.0, 4.0, -10.0, 10.0])  # means 3 and 0
    batch = Batch(
        observations=torch.zeros(1, 3),
        next_observations=torch.zeros(1, 3),
        actions=torch.tensor([0]),
        rewards=torch.tensor([-1.0]),
        terminated=torch.tensor([False]),
        truncated=torch.tensor([False]),
        discounts=torch.tensor([0.5]),
    )
    # The target prefers choice 0: T = -1 + 0.5 * (2, 4) = (0, 1). theta = (0, 1).
    # theta_1 = 0: u = 0, 1 -> 1/4 * (0 + 0.5) / 2.   theta_2 = 1: u = -1, 0 -> |3/4 - 1| * 0.5 / 2.
    loss, shares, metrics = qrdqn_loss(model, target, batch, CHOOSE[False], 1.0)
    assert loss.item() == pytest.approx(0.0625 + 0.0625)
    assert shares.tolist() == pytest.approx([0.125])
    assert metrics["q"].item() == 0.5
    # Double lets the network choose 1: T = -1 + 0.5 * (-10, 10) = (-6, 4).
    # theta_1 = 0: u = -6, 4 -> (3/4 * 5.5 + 1/4 * 3.5) / 2.   theta_2 = 1: u = -7, 3 -> (1/4 * 6.5 + 3/4 * 2.5) / 2.
    loss = qrdqn_loss(model, target, batch, CHOOSE[True], 1.0)[0]
    assert loss.item() == pytest.approx((0.75 * 5.5 + 0.25 * 3.5 + 0.25 * 6.5 + 0.75 * 2.5) / 2)
