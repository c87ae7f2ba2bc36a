"""A2C's loss against an independent slow implementation, against one example worked by hand, and what is around it."""

import math

import pytest
import torch

from rlstudio.algos.a2c import A2C, A2CConfig, a2c_loss
from rlstudio.core.batch import Batch
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.optimizer import Optimizer, RMSprop

OBS = Box((3,), "float32", (-1,), (1,))
CHOICES = Spaces(OBS, Discrete(4))
NUMBERS = Spaces(OBS, Box((2,), "float32", (-1, -1), (1, 1)))
STEPS, ENVS = 6, 3


def draws(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def make_model(spaces: Spaces, seed: int):
    model = build_policy_value(spaces, NetworkConfig(hidden_sizes=(8,)), Rng(seed))
    with torch.no_grad():  # away from the start, where policies are uniform
        for parameter in model.parameters():
            parameter.add_(0.3 * draws(seed, *parameter.shape))
    return model


def make_rollout(spaces: Spaces, seed: int, weighted: bool) -> Batch:
    choices = (10 * draws(seed + 3, STEPS, ENVS)).long().abs() % 4
    weights = (draws(seed + 7, STEPS, ENVS) > -1).float() if weighted else None
    return Batch(
        lead=2,
        observations=draws(seed + 1, STEPS, ENVS, 3),
        next_observations=draws(seed + 2, STEPS, ENVS, 3),
        actions=choices if spaces is CHOICES else draws(seed + 3, STEPS, ENVS, 2),
        rewards=draws(seed + 4, STEPS, ENVS),
        terminated=draws(seed + 5, STEPS, ENVS) > 1,
        truncated=draws(seed + 6, STEPS, ENVS) > 1,
        weights=weights,
    )


def slow_advantage(values, rollout, cfg, t, b) -> float:
    """By its definition: a weighted sum of the one-step errors of the rows that follow, up to where the trace ends."""
    total, factor = 0.0, 1.0
    for k in range(t, STEPS):
        now, following = values(rollout.observations[k, b]), values(rollout.next_observations[k, b])
        goes_on = 0.0 if rollout.terminated[k, b] else 1.0
        total += factor * (float(rollout.rewards[k, b]) + cfg.gamma * goes_on * following - now)
        cut_before_a_bad_row = rollout.weights is not None and k + 1 < STEPS and rollout.weights[k + 1, b] == 0
        if rollout.terminated[k, b] or rollout.truncated[k, b] or cut_before_a_bad_row:
            break
        factor *= cfg.gamma * cfg.gae_lambda
    return total


def slow_a2c(model, rollout, cfg):
    """Row by row with torch.distributions, in the words of the paper."""

    def values(observation) -> float:
        with torch.no_grad():
            return float(model(observation[None])[1])

    rows = []
    for t in range(STEPS):
        for b in range(ENVS):
            policy, value = model(rollout.observations[t, b][None])
            advantage = slow_advantage(values, rollout, cfg, t, b)
            action = rollout.actions[t, b]
            if hasattr(policy, "logits"):
                distribution = torch.distributions.Categorical(logits=policy.logits[0])
                log_prob, entropy = distribution.log_prob(action), distribution.entropy()
            else:
                distribution = torch.distributions.Normal(policy.mean[0], policy.log_std.flatten().exp())
                log_prob, entropy = distribution.log_prob(action).sum(), distribution.entropy().sum()
            weight = 1.0 if rollout.weights is None else float(rollout.weights[t, b])
            rows.append((weight, log_prob, advantage, value[0], advantage + value.item(), entropy))
    norm = sum(row[0] for row in rows)
    mean = sum(row[0] * row[2] for row in rows) / norm
    correction = 1 if rollout.weights is None else 0
    std = math.sqrt(sum(row[0] * (row[2] - mean) ** 2 for row in rows) / (norm - correction))
    total = torch.zeros(())
    for weight, log_prob, advantage, value, goal, entropy in rows:
        used = (advantage - mean) / (std + 1e-8) if cfg.normalize_advantages else advantage
        row = -log_prob * used + cfg.value_coef * (value - goal) ** 2 - cfg.entropy_coef * entropy
        total = total + weight * row / norm
    return total


@pytest.mark.parametrize("spaces", [CHOICES, NUMBERS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"entropy_coef": 0.02, "value_coef": 0.7, "gae_lambda": 0.8},
        {"entropy_coef": 0.1, "normalize_advantages": True},
    ],
)
def test_it_equals_a_slow_implementation(spaces, weighted, fields):
    cfg = A2CConfig(gamma=0.9, **fields)
    for seed in range(2):
        model, rollout = make_model(spaces, seed), make_rollout(spaces, seed, weighted)
        loss, metrics = a2c_loss(model, rollout, cfg)
        expected = slow_a2c(model, rollout, cfg)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
        assert torch.allclose(gradients(model, loss), gradients(model, expected), atol=2e-5)
        assert not any(value.requires_grad for value in metrics.values())


def test_by_hand():
    """Two steps of one env, V = 2 everywhere, both actions of probability 1/2; the second row is the last one seen.

    gamma 1/2, lambda 1: errors 1 + 1 - 2 = 0 and 3 + 1 - 2 = 2, so A = (0 + 2/2, 2) = (1, 2) and R = (3, 4).
    """
    model = build_policy_value(Spaces(OBS, Discrete(2)), NetworkConfig(hidden_sizes=(4,)), Rng(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.value_net.layers[-1].bias.fill_(2.0)
    rollout = Batch(
        lead=2,
        observations=torch.zeros(2, 1, 3),
        next_observations=torch.zeros(2, 1, 3),
        actions=torch.tensor([[0], [1]]),
        rewards=torch.tensor([[1.0], [3.0]]),
        terminated=torch.zeros(2, 1, dtype=torch.bool),
        truncated=torch.tensor([[False], [True]]),
    )
    loss, metrics = a2c_loss(model, rollout, A2CConfig(gamma=0.5, value_coef=0.5, entropy_coef=0.1))
    policy_loss = math.log(2) * (1 + 2) / 2
    value_loss = (1 + 4) / 2
    assert metrics["policy_loss"].item() == pytest.approx(policy_loss)
    assert metrics["value_loss"].item() == pytest.approx(value_loss)
    assert metrics["entropy"].item() == pytest.approx(math.log(2))
    assert loss.item() == pytest.approx(policy_loss + 0.5 * value_loss - 0.1 * math.log(2))
    died = rollout.with_(terminated=torch.tensor([[False], [True]]), truncated=torch.zeros(2, 1, dtype=torch.bool))
    # The second error is 3 - 2 = 1: A = (0 + 1/2, 1).
    assert a2c_loss(model, died, A2CConfig(gamma=0.5))[1]["policy_loss"].item() == pytest.approx(math.log(2) * 0.75)


def trainer(num_envs: int = 2, env_id: str = "CartPole-v1", network: dict | None = None, **fields) -> A2C:
    runtime = LocalRuntime(make_vec_env(EnvConfig(id=env_id, num_envs=num_envs, seed=3)))
    return A2C(A2CConfig(**fields), runtime, NetworkConfig(hidden_sizes=(8,), **(network or {})), Rng(0))


def test_it_learns_from_a_whole_rollout_at_once():
    learner = trainer()
    for count in (1, 2, 3):
        learner.train_step()
        assert learner.optimizer.calls == count
        assert learner.source.env_steps == 10 * count


@pytest.mark.parametrize(("name", "kind"), [("rmsprop", RMSprop), ("adam", Optimizer)])
def test_its_optimizer_is_a_part(name, kind):
    learner = trainer(optimizer=name)
    assert type(learner.optimizer) is kind
    before = learner.optimizer.flat.data.clone()
    learner.train_step()
    assert not torch.equal(before, learner.optimizer.flat.data)


def test_scaled_rewards_are_learned_from_and_their_scale_is_state():
    plain, scaled = trainer(), trainer(normalize_rewards=True)
    losses = [learner.train_step()["value_loss"] for learner in (plain, scaled)]
    assert not torch.equal(*losses)
    assert set(scaled.stateful()) == {*plain.stateful(), "reward_scale"}
    count = scaled.reward_scale.count.clone()
    scaled.eval_step()
    assert torch.equal(scaled.reward_scale.count, count)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_a_policy_with_memory_learns_through_the_rollout(env_id, memory):
    learner = trainer(env_id=env_id, network={"memory": memory, "memory_size": 6}, rollout_steps=8)
    before = {name: parameter.clone() for name, parameter in learner.model.named_parameters()}
    for _ in range(3):
        metrics = learner.train_step()
    assert all(torch.isfinite(value) for value in metrics.values())
    for name, parameter in learner.model.named_parameters():
        assert not torch.equal(parameter, before[name]), f"{name} has no gradient"
