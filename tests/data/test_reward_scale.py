"""Reward normalisation against a slow loop over steps and environments."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch
from rlstudio.data.collect.reward_scale import CLIP, RewardScale


def rollout(rng: np.random.Generator, steps: int, envs: int, weights=None) -> Batch:
    columns = {
        "observations": torch.zeros(steps, envs, 1),
        "rewards": torch.from_numpy(rng.normal(2.0, 5.0, (steps, envs)).astype(np.float32)),
        "terminated": torch.from_numpy(rng.random((steps, envs)) < 0.2),
        "truncated": torch.from_numpy(rng.random((steps, envs)) < 0.1),
    }
    if weights is not None:
        columns["weights"] = weights
    return Batch(lead=2, **columns)


def slow_returns(rollouts: list[Batch], gamma: float) -> np.ndarray:
    """The discounted return so far at every step, one number at a time."""
    found = []
    running = np.zeros(rollouts[0].shape[1])
    for part in rollouts:
        for t in range(part.shape[0]):
            running = gamma * running + part.rewards[t].numpy().astype(np.float64)
            found.append(running.copy())
            running[part.dones[t].numpy()] = 0.0
    return np.asarray(found)


@given(seed=st.integers(0, 10_000), steps=st.integers(1, 9), envs=st.integers(1, 4), gamma=st.floats(0.0, 1.0))
def test_the_scale_is_the_standard_deviation_of_the_discounted_return(seed, steps, envs, gamma):
    rng = np.random.default_rng(seed)
    parts = [rollout(rng, steps, envs) for _ in range(3)]
    scale = RewardScale(gamma, envs)
    for part in parts:
        scaled = scale(part)
    returns = slow_returns(parts, gamma)
    expected = parts[-1].rewards.numpy() / np.sqrt(returns.var() + 1e-8)
    np.testing.assert_allclose(scaled.rewards.numpy(), np.clip(expected, -CLIP, CLIP), rtol=1e-3, atol=1e-4)


def test_rows_that_do_not_count_leave_the_statistics_alone():
    rng = np.random.default_rng(0)
    weights = torch.ones(6, 2)
    weights[3, 1] = 0.0
    part = rollout(rng, 6, 2, weights)
    scale = RewardScale(0.9, 2)
    scale(part)
    counted = slow_returns([part], 0.9)[weights.numpy() > 0]
    assert float(scale.count) == 11
    assert float((scale.square / scale.count).item()) == pytest.approx(counted.var(), rel=1e-4)


def test_applying_changes_nothing_and_a_restored_scale_goes_on_alike():
    rng = np.random.default_rng(1)
    first, second = rollout(rng, 5, 3), rollout(rng, 5, 3)
    scale = RewardScale(0.97, 3)
    scale(first)
    before = {name: tensor.clone() for name, tensor in scale.state_dict().items()}
    scale.apply(second)
    assert all(torch.equal(tensor, before[name]) for name, tensor in scale.state_dict().items())
    resumed = RewardScale(0.97, 3)
    resumed.load_state_dict({name: tensor.numpy().copy() for name, tensor in before.items()})
    assert torch.equal(resumed(second).rewards, scale(second).rewards)


def test_a_reward_that_is_no_number_does_not_spoil_the_scale():
    scale = RewardScale(0.99, 2)
    part = rollout(np.random.default_rng(2), 4, 2)
    poisoned = part.rewards.clone()
    poisoned[1, 0] = torch.nan
    scale(part.with_(rewards=poisoned))
    assert all(torch.isfinite(tensor).all() for tensor in scale.state_dict().values())


def test_the_sign_of_a_reward_never_changes():
    part = rollout(np.random.default_rng(3), 50, 4)
    scaled = RewardScale(0.99, 4)(part)
    assert torch.equal(scaled.rewards.sign(), part.rewards.sign())
