"""Learned dynamics: statistics, likelihood, bounds and resamples by closed form; members batched as if one by one."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from rlstudio.algos.parts.dynamics import dynamics_loss, resamples
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Spaces
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.models.planning.dynamics import CERTAIN, LearnedDynamics, within
from rlstudio.ops.optimizer import Optimizer

CHOICES = Spaces(Box((3,), "float32", (-np.inf,), (np.inf,)), Discrete(4))
NUMBERS = Spaces(Box((2,), "float32", (-np.inf,), (np.inf,)), Box((1,), "float32", (-2.0,), (2.0,)))


def learned(spaces=NUMBERS, **changed):
    settings = {"members": 3, "spread": True, "hidden_sizes": (16,), "activation": "silu", "particles": 3}
    return LearnedDynamics(spaces, **{**settings, "noise": False, "rng": Rng(1), **changed})


def moves(rows, seed=0, ends=0.1) -> Batch:
    """o' = A o + b a, r = o_0 - a: linear, without noise."""
    g = np.random.default_rng(seed)
    observations = torch.from_numpy(g.normal(size=(rows, 2)).astype("float32")) * torch.tensor([1.0, 20.0]) + 5.0
    actions = torch.from_numpy(g.uniform(-2, 2, (rows, 1)).astype("float32"))
    following = observations @ torch.tensor([[0.9, 0.5], [0.02, 0.8]]) + actions * torch.tensor([0.3, -1.0])
    return Batch(
        observations=observations,
        actions=actions,
        rewards=observations[:, 0] - actions[:, 0],
        terminated=torch.from_numpy(g.random(rows) < ends),
        truncated=torch.zeros(rows, dtype=torch.bool),
        next_observations=following,
        rows=torch.arange(rows),
    )


# -- statistics -------------------------------------------------------------------------------------------------------


def test_statistics_are_those_of_all_rows_however_they_came():
    batch = moves(100)
    once, twice = learned(), learned()
    once.learn_statistics(batch)
    twice.learn_statistics(batch.select(slice(0, 30)))
    twice.learn_statistics(batch.select(slice(30, 100)))
    changes = torch.cat((batch.next_observations - batch.observations, batch.rewards[:, None]), 1)
    for model in (once, twice):
        torch.testing.assert_close(model.inputs.mean, batch.observations.mean(0))
        torch.testing.assert_close(model.targets.mean, changes.mean(0))
        torch.testing.assert_close(1 / model.targets.inverse_std, changes.std(0, correction=0))
    standard = once.changes(batch.observations, batch.next_observations, batch.rewards)
    torch.testing.assert_close(standard.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(3))
    assert once.end_share == pytest.approx(batch.terminated.float().mean().item())


def test_statistics_are_part_of_the_weights():
    model, other = learned(), learned()
    model.learn_statistics(moves(50))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.inputs.mean, model.inputs.mean)
    assert torch.equal(other.targets.inverse_std, model.targets.inverse_std)


def test_a_row_of_no_weight_leaves_no_trace():
    batch = moves(50)
    model, other = learned(), learned()
    model.learn_statistics(batch.select(slice(0, 40)))
    other.learn_statistics(batch.with_(weights=(torch.arange(50) < 40).float()))
    torch.testing.assert_close(other.inputs.mean, model.inputs.mean)
    torch.testing.assert_close(other.targets.inverse_std, model.targets.inverse_std)


# -- the loss ---------------------------------------------------------------------------------------------------------


def test_the_loss_is_the_likelihood_of_torch_distributions():
    model, batch = learned(), moves(40)
    model.learn_statistics(batch)
    counts = resamples(3, Rng(5))
    loss, _ = dynamics_loss(model, batch, counts)
    prediction = model(batch.observations, batch.actions)
    targets = model.changes(batch.observations, batch.next_observations, batch.rewards)
    likely = Normal(prediction.mean, torch.exp(0.5 * prediction.log_variance)).log_prob(targets).sum(-1)  # [K, N]
    goes_on = torch.distributions.Bernoulli(logits=prediction.evidence).log_prob((~batch.terminated).float())
    share = batch.terminated.float().mean()
    balance = torch.where(batch.terminated, 0.5 / share, 0.5 / (1 - share))
    weights = counts[:40].T
    constant = 3 * 0.5 * np.log(2 * np.pi)  # which no weight can change
    expected = -(weights * (likely + constant + balance * goes_on)).sum() / weights.sum()
    low, high = model.low_high
    torch.testing.assert_close(loss, expected + 0.01 * (high - low).sum())


def test_without_spread_it_is_the_squared_error():
    model, batch = learned(members=1, spread=False, particles=1), moves(40, ends=0.0)
    model.learn_statistics(batch)
    loss, metrics = dynamics_loss(model, batch, resamples(1, Rng(5)))
    prediction = model(batch.observations, batch.actions)
    targets = model.changes(batch.observations, batch.next_observations, batch.rewards)
    square = (prediction.mean[0] - targets).square()
    goes_on = 0.5 / 0.999 * torch.nn.functional.softplus(-prediction.evidence[0])
    torch.testing.assert_close(loss, (0.5 * square.sum(-1) + goes_on).mean())
    torch.testing.assert_close(metrics["dynamics_error"], square.mean())


def test_log_variances_are_held_between_their_bounds():
    low, high = torch.tensor([-10.0]), torch.tensor([0.5])
    raw = torch.linspace(-100, 100, 401)
    held = within(raw, low, high)
    assert (held >= low).all()
    assert (held <= high + 1e-4).all()
    assert (held.diff() >= 0).all()
    torch.testing.assert_close(within(torch.tensor([-5.0]), low, high), torch.tensor([-5.0]), atol=0.02, rtol=0)


def test_the_bounds_learn_too():
    model, batch = learned(), moves(40)
    model.learn_statistics(batch)
    dynamics_loss(model, batch, resamples(3, Rng(5)))[0].backward()
    assert (model.low_high.grad != 0).all()


def test_resamples_are_poisson_and_other_for_each_member():
    counts = resamples(4, Rng(3))
    assert counts.mean() == pytest.approx(1.0, abs=0.02)
    assert (counts == 0).float().mean() == pytest.approx(np.exp(-1), abs=0.01)
    assert abs(torch.corrcoef(counts.T) - torch.eye(4)).max() < 0.05
    assert torch.equal(resamples(4, Rng(3)), counts)
    assert resamples(1, Rng(3)).tolist() == [[1.0]]


def test_a_member_does_not_learn_from_rows_outside_its_resample():
    model, batch = learned(), moves(40)
    model.learn_statistics(batch)
    dynamics_loss(model, batch, torch.tensor([[1.0, 0.0, 2.0]]))[0].backward()
    gradients = torch.stack([weight.grad.flatten(1).abs().sum(1) for weight in model.net.weights]).sum(0)
    assert gradients[1] == 0
    assert (gradients[[0, 2]] > 0).all()


def test_a_linear_world_is_learned():
    model, batch = learned(hidden_sizes=(32,)), moves(512)
    model.learn_statistics(batch)
    optimizer, counts = Optimizer(model, lr=1e-2), resamples(3, Rng(5))
    for _ in range(300):
        optimizer.step(dynamics_loss(model, batch, counts)[0])
    fresh = moves(200, seed=9)
    actions = model.actions.unit(fresh.actions)
    states, rewards, continues = model.step(model.start(fresh.observations, 1), actions.unsqueeze(1))
    spread = fresh.next_observations.std(0)
    assert ((states[:, :, 0] - fresh.next_observations).square().mean((0, 1)).sqrt() < 0.02 * spread).all()
    assert (rewards[:, :, 0] - fresh.rewards).square().mean().sqrt() < 0.05 * fresh.rewards.std()
    assert continues.mean().item() == pytest.approx(0.9, abs=0.05)  # ends came at random: only their share can be known


# -- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [1, 2])
@torch.no_grad()
def test_particles_keep_their_member_as_if_each_were_alone(repeats):
    model, batch = learned(particles=3 * repeats), moves(40)
    model.learn_statistics(batch)
    observations, actions = batch.observations[:4], torch.rand(4, 5, 3, 1) * 2 - 1
    states = model.start(observations, 5)
    assert states.shape == (3 * repeats, 4, 5, 2)
    alone = states.clone()
    for step in range(3):
        states, rewards, continues = model.step(states, actions[:, :, step])
        for particle in range(3 * repeats):
            for env in range(4):
                rows, chosen = alone[particle, env], actions[env, :, step]
                predicted = model(rows, model.actions.actions(chosen))
                member = particle // repeats
                change = predicted.mean[member] / model.targets.inverse_std + model.targets.mean
                alone[particle, env] = rows + change[:, :-1]
                torch.testing.assert_close(rewards[particle, env], change[:, -1], atol=1e-5, rtol=1e-5)
                share = model.end_share
                odds = predicted.evidence[member] + torch.log((1 - share) / share)
                goes_on = odds.sigmoid()
                goes_on[goes_on > CERTAIN] = 1.0
                torch.testing.assert_close(continues[particle, env], goes_on, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(states, alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_noise_is_the_predicted_spread_by_numbers_of_particle_and_step():
    model, batch = learned(particles=6, noise=True), moves(40)
    model.learn_statistics(batch)
    start = model.start(batch.observations[:2], 4)
    assert start.shape == (6, 2, 4, 3)
    actions = torch.zeros(2, 4, 1)
    once, again = model.step(start, actions), model.step(start, actions)
    assert all(torch.equal(mine, other) for mine, other in zip(once, again, strict=True))  # pure
    calm = learned(particles=6)
    calm.load_state_dict(model.state_dict())
    means = calm.step(start[..., :2], actions)
    spread = torch.exp(0.5 * model(batch.observations[:2], torch.zeros(2, 1)).log_variance)  # [K, E, 3]
    expected = (spread.repeat_interleave(2, 0) * model.table[0][:, None])[..., :2] / model.targets.inverse_std[:2]
    moved = model.observe(once.states) - means.states
    torch.testing.assert_close(moved, expected[:, :, None].expand_as(moved), atol=1e-4, rtol=1e-3)
    assert (once.states[..., -1] == 1).all()
    assert not torch.equal(model.step(once.states, actions).states - once.states, once.states - start)


def test_choices_are_seen_as_choices():
    model = learned(CHOICES)
    observations, actions = torch.randn(4, 3), torch.arange(4)
    prediction = model(observations, actions)
    features = torch.cat((observations, torch.eye(4)), 1)
    torch.testing.assert_close(prediction.mean, model.net(features)[..., :4])


def test_rewards_and_ends_may_be_known():
    world = analytic_dynamics("CartPole-v1")
    spaces = Spaces(Box((4,), "float32", (-np.inf,), (np.inf,)), Discrete(2))
    model = learned(spaces, judge=world)
    observations = torch.tensor([[0.0, 0.0, 0.0, 0.0], [2.39, 2.0, 0.0, 0.0], [0.0, 0.0, 0.2, 3.0]])
    states, rewards, continues = model.step(model.start(observations, 2), torch.tensor([[0, 1]] * 3))
    assert states.shape == (3, 3, 2, 4)
    assert (rewards == 1).all()
    assert continues[:, :, 0].tolist() == continues[:, :, 1].tolist() == [[1.0, 0.0, 0.0]] * 3


def test_what_cannot_be_predicted_is_refused_with_its_name():
    with pytest.raises(Incompatible, match=r"learned dynamics predict a row of numbers; the env shows Discrete\(3"):
        learned(Spaces(Discrete(3), Discrete(2)))
    with pytest.raises(Incompatible, match="learned dynamics take numbers or one choice; the env takes MultiDiscrete"):
        learned(Spaces(NUMBERS.observation, MultiDiscrete((2, 2))))


def test_noise_of_a_row_goes_by_its_own_step():
    model, batch = learned(particles=6, noise=True), moves(40)
    model.learn_statistics(batch)
    states = model.start(batch.observations[:2], 1).clone()
    states[:, 1, :, -1] = 3.0  # deeper in its tree than its neighbour
    actions = model.actions.unit(batch.actions[:2]).unsqueeze(1)
    both = model.step(states, actions).states
    for row in range(2):
        alone = model.step(states[:, row : row + 1], actions[row : row + 1]).states
        torch.testing.assert_close(both[:, row : row + 1], alone)
