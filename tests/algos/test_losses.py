"""Each loss against an independent slow implementation, and against one example worked by hand."""

import math

import pytest
import torch

from rlstudio.algos.ppo import PPOConfig, ppo_loss
from rlstudio.core.batch import Batch
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import policy_change
from rlstudio.models.policies.policy_value import PolicyValue

OBS = Box((3,), "float32", (-1,), (1,))
CHOICES = Spaces(OBS, Discrete(4))
NUMBERS = Spaces(OBS, Box((2,), "float32", (-1, -1), (1, 1)))


def draws(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), allow_unused=False)])


def slow_ppo(model, batch, cfg):
    """Row by row with torch.distributions, in the words of the paper."""
    policy_terms, value_terms, entropies, advantages = [], [], [], batch.advantages
    weights = torch.ones(len(batch)) if batch.weights is None else batch.weights
    if batch.weights is None:
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    else:
        mean = (weights * advantages).sum() / weights.sum()
        variance = (weights * (advantages - mean) ** 2).sum() / weights.sum()
        normal = (advantages - mean) / (variance.sqrt() + 1e-8)
    for i in range(len(batch)):
        policy, value = model(batch.observations[i : i + 1])
        if hasattr(policy, "logits"):
            distribution = torch.distributions.Categorical(logits=policy.logits[0])
            log_prob, entropy = distribution.log_prob(batch.actions[i]), distribution.entropy()
        else:
            distribution = torch.distributions.Normal(policy.mean[0], policy.log_std[0].exp())
            log_prob, entropy = distribution.log_prob(batch.actions[i]).sum(), distribution.entropy().sum()
        ratio = torch.exp(log_prob - batch.log_probs[i])
        policy_terms.append(min(ratio * normal[i], ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * normal[i]))
        errors = [(value[0] - batch.returns[i]) ** 2]
        if cfg.clip_value is not None:
            old = batch.values[i]
            errors.append((old + (value[0] - old).clamp(-cfg.clip_value, cfg.clip_value) - batch.returns[i]) ** 2)
        value_terms.append(max(errors))
        entropies.append(entropy)
    mean = lambda terms: (torch.stack(terms) * weights).sum() / weights.sum()  # noqa: E731
    return -mean(policy_terms) + cfg.value_coef * mean(value_terms) - cfg.entropy_coef * mean(entropies)


@pytest.mark.parametrize("spaces", [CHOICES, NUMBERS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clip_value", [None, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_ppo_equals_a_slow_implementation(spaces, weighted, clip_value, seed):
    model = build_model(PolicyValue, spaces, NetworkConfig(hidden_sizes=(8,)), Rng(seed))
    with torch.no_grad():  # away from the start, where ratios are one
        for parameter in model.parameters():
            parameter.add_(0.3 * draws(seed, *parameter.shape))
    actions = torch.arange(12) % 4 if spaces is CHOICES else draws(seed + 3, 12, 2)
    batch = Batch(
        observations=draws(seed + 1, 12, 3),
        actions=actions,
        log_probs=draws(seed + 4, 12) * 0.3 - 1.4,
        advantages=draws(seed + 5, 12),
        returns=draws(seed + 6, 12),
        values=draws(seed + 8, 12),
        weights=(draws(seed + 7, 12) > -0.5).float() if weighted else None,
    )
    cfg = PPOConfig(entropy_coef=0.02, value_coef=0.7, clip_value=clip_value)
    loss, log_ratios, _ = ppo_loss(model, batch, cfg)
    metrics = policy_change([(log_ratios, batch.weights)], cfg.clip)
    expected = slow_ppo(model, batch, cfg)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradients(model, loss), gradients(model, expected), atol=2e-5)
    assert 0 <= metrics["clip_fraction"] <= 1
    assert metrics["kl"] >= 0


@pytest.mark.parametrize("weighted", [False, True])
def test_how_far_a_policy_moved_is_of_the_rows_of_all_minibatches(weighted):
    """Of sequences, and of a last minibatch that is smaller, as of one."""
    log_ratios = 0.3 * draws(1, 22)
    weights = (draws(2, 22) > 0).float() if weighted else None
    parts = [slice(0, 12), slice(12, 18), slice(18, 22)]
    minibatches = [(log_ratios[part], weights[part] if weighted else None) for part in parts]
    minibatches[0] = tuple(column if column is None else column.view(3, 4) for column in minibatches[0])
    counted = log_ratios if weights is None else log_ratios[weights > 0]
    change = policy_change(minibatches, clip=0.2)
    assert change["kl"].item() == pytest.approx((counted.exp() - 1 - counted).mean().item(), rel=1e-5)
    assert change["clip_fraction"].item() == pytest.approx(((counted.exp() - 1).abs() > 0.2).float().mean().item())


def test_ppo_by_hand():
    """Two rows, both actions of probability 1/2, old probabilities 1/2 and 1/4, advantages +1 and -1."""
    model = build_model(PolicyValue, Spaces(OBS, Discrete(2)), NetworkConfig(hidden_sizes=(4,)), Rng(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    batch = Batch(
        observations=torch.zeros(2, 3),
        actions=torch.tensor([0, 1]),
        log_probs=torch.tensor([0.5, 0.25]).log(),
        advantages=torch.tensor([1.0, -1.0]),
        returns=torch.tensor([3.0, 1.0]),
        values=torch.zeros(2),
    )
    loss, log_ratios, metrics = ppo_loss(model, batch, PPOConfig(clip=0.2, value_coef=0.5, entropy_coef=0.1))
    metrics |= policy_change([(log_ratios, None)], clip=0.2)
    # Standardised advantages are +-1/sqrt(2); ratios 1 and 2: min(2 * -a, 1.2 * -a) = -2a.
    a = 1 / math.sqrt(2)
    policy_loss = -(a - 2 * a) / 2
    value_loss = (9 + 1) / 2
    assert metrics["policy_loss"].item() == pytest.approx(policy_loss, abs=1e-6)
    assert metrics["value_loss"].item() == pytest.approx(value_loss)
    assert metrics["entropy"].item() == pytest.approx(math.log(2))
    assert metrics["clip_fraction"].item() == 0.5
    assert metrics["kl"].item() == pytest.approx((2 - 1 - math.log(2)) / 2, abs=1e-6)
    assert loss.item() == pytest.approx(policy_loss + 0.5 * value_loss - 0.1 * math.log(2), abs=1e-5)
