"""GAE and n-step returns against slow loops, closed forms and each other."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch
from rlstudio.ops.returns import advantages, discounted_sums, n_step
from support.examples import examples


def rollout(rewards, terminated, dones, **more) -> Batch:
    """Rows [T, B] as far as advantages look at them."""
    return Batch(lead=2, rewards=rewards, terminated=terminated, truncated=dones & ~terminated, **more)


def gae(rewards, values, next_values, terminated, dones, gamma, lam):
    rows = rollout(rewards, terminated, dones)
    return advantages(rows, values, next_values, torch.zeros_like(values), gamma, lam).advantages


def slow_gae(rewards, values, next_values, terminated, dones, gamma, lam):
    """The definition, transition by transition, in double precision."""
    steps, envs = rewards.shape
    out = np.zeros((steps, envs))
    for b in range(envs):
        running = 0.0
        for t in reversed(range(steps)):
            bootstrap = 0.0 if terminated[t, b] else gamma * next_values[t, b]
            delta = rewards[t, b] + bootstrap - values[t, b]
            running = delta + (0.0 if dones[t, b] else gamma * lam * running)
            out[t, b] = running
    return out


rollouts = st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))


@given(rollouts, st.floats(0, 1), st.floats(0, 1))
def test_gae_equals_its_definition(shape, gamma, lam):
    steps, envs, seed = shape
    g = np.random.default_rng(seed)
    rewards, values, next_values = g.normal(size=(3, steps, envs)).astype(np.float32)
    terminated, truncated = g.random((2, steps, envs)) < 0.3
    dones = terminated | truncated
    tensors = [torch.from_numpy(x) for x in (rewards, values, next_values, terminated, dones)]
    expected = slow_gae(rewards, values, next_values, terminated, dones, gamma, lam)
    np.testing.assert_allclose(gae(*tensors, gamma, lam).numpy(), expected, atol=1e-4)


def test_truncation_bootstraps_and_termination_does_not():
    one = torch.ones(1, 1)
    yes, no = torch.tensor([[True]]), torch.tensor([[False]])
    value_of_next = 10 * one
    assert gae(one, 0 * one, value_of_next, no, yes, 0.9, 0.95).item() == pytest.approx(1 + 0.9 * 10)
    assert gae(one, 0 * one, value_of_next, yes, yes, 0.9, 0.95).item() == pytest.approx(1.0)


def test_nothing_leaks_over_a_reset():
    """What happens after an episode's end changes no advantage before it."""
    rewards = torch.ones(6, 1)
    values, next_values = torch.zeros(6, 1), torch.zeros(6, 1)
    dones = torch.tensor([[False], [False], [True], [False], [False], [False]])
    before = gae(rewards, values, next_values, torch.zeros_like(dones), dones, 0.9, 0.9)
    rewards[3:] = 1e6
    after = gae(rewards, values, next_values, torch.zeros_like(dones), dones, 0.9, 0.9)
    assert torch.equal(before[:3], after[:3])


def test_lambda_zero_is_td_and_lambda_one_is_monte_carlo():
    g = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(8, 2, generator=g), torch.randn(8, 2, generator=g)
    next_values = torch.cat([values[1:], torch.randn(1, 2, generator=g)])
    never = torch.zeros(8, 2, dtype=torch.bool)
    td = rewards + 0.9 * next_values - values
    assert torch.allclose(gae(rewards, values, next_values, never, never, 0.9, 0.0), td, atol=1e-6)
    returns = next_values[-1]
    for t in reversed(range(8)):
        returns = rewards[t] + 0.9 * returns
    advantage = gae(rewards, values, next_values, never, never, 0.9, 1.0)[0]
    assert torch.allclose(advantage, returns - values[0], atol=1e-5)


def random_rollout(seed, steps=12, envs=3):
    g = torch.Generator().manual_seed(seed)
    rewards, values, next_values, present, acted = torch.randn(5, steps, envs, generator=g)
    terminated, truncated = torch.rand(2, steps, envs, generator=g) < 0.2
    return rewards, values, next_values, terminated, terminated | truncated, present, acted


@given(st.integers(0, 10**6), st.floats(0.1, 1), st.floats(0, 1))
def test_corrected_advantages_equal_their_definition_and_without_age_those_of_gae(seed, gamma, lam):
    rewards, values, next_values, terminated, dones, present, acted = random_rollout(seed)
    rows = rollout(rewards, terminated, dones, behaviour_log_probs=acted)
    found = advantages(rows, values, next_values, present, gamma, lam)
    rho = np.minimum(1.0, np.exp((present - acted).double().numpy()))
    steps, envs = rewards.shape
    for b in range(envs):
        after = 0.0
        for t in reversed(range(steps)):
            bootstrap = 0.0 if terminated[t, b] else gamma * float(next_values[t, b])
            delta = float(rewards[t, b]) + bootstrap - float(values[t, b])
            advantage = delta + (0.0 if dones[t, b] else gamma * lam * after)
            after = rho[t, b] * advantage
            assert float(found.advantages[t, b]) == pytest.approx(advantage, abs=1e-4)
            assert float(found.returns[t, b]) == pytest.approx(float(values[t, b]) + after, abs=1e-4)
    young = rollout(rewards, terminated, dones, behaviour_log_probs=present)
    same = advantages(young, values, next_values, present, gamma, lam)
    plain = advantages(rollout(rewards, terminated, dones), values, next_values, present, gamma, lam)
    torch.testing.assert_close(same.advantages, plain.advantages)
    torch.testing.assert_close(same.returns, plain.returns)


@given(st.integers(0, 10**6), st.floats(0.1, 1), st.floats(0, 1))
def test_advantages_pass_over_rows_without_a_transition(seed, gamma, lam):
    """Each environment as if those rows had never been."""
    rewards, values, next_values, terminated, dones, present, _ = random_rollout(seed)
    active = torch.rand(rewards.shape, generator=torch.Generator().manual_seed(seed + 1)) < 0.6
    dones = dones & active  # the outcome of an action stands in its own row
    rows = rollout(rewards, terminated & active, dones, active=active, weights=active.float())
    found = advantages(rows, values, next_values, present, gamma, lam).advantages
    for b in range(active.shape[1]):
        keep = active[:, b]
        if keep.any():
            alone = [column[keep, b].unsqueeze(1) for column in (rewards, values, next_values, terminated, dones)]
            torch.testing.assert_close(found[keep, b], gae(*alone, gamma, lam)[:, 0], atol=1e-5, rtol=1e-4)


def test_the_cpu_path_equals_the_general_one():
    x, decay = torch.rand(16, 3), torch.rand(16, 3)
    rows = [x[-1]]
    for t in range(14, -1, -1):
        rows.append(x[t] + decay[t] * rows[-1])
    assert torch.allclose(discounted_sums(x, decay), torch.stack(rows[::-1]))


@examples(60)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 10**6), st.floats(0.1, 1))
def test_n_step_equals_a_slow_loop(horizon, rows, seed, gamma):
    g = np.random.default_rng(seed)
    rewards = g.normal(size=(horizon, rows)).astype(np.float32)
    dones = g.random((horizon, rows)) < 0.4
    sums, last, discounts = n_step(torch.from_numpy(rewards), torch.from_numpy(dones), gamma)
    for i in range(rows):
        total, k = 0.0, 0
        while True:
            total += gamma**k * rewards[k, i]
            if dones[k, i] or k == horizon - 1:
                break
            k += 1
        assert sums[i].item() == pytest.approx(total, abs=1e-4)
        assert last[i].item() == k
        assert discounts[i].item() == pytest.approx(gamma ** (k + 1), rel=1e-5)
