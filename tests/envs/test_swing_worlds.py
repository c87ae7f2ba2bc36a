"""Our Acrobot and MountainCars against Gymnasium's, from the same states, over thousands of steps."""

from math import pi

import gymnasium
import numpy as np
import pytest
import torch

from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.worlds.acrobot import MAX_SPEED_1, MAX_SPEED_2, Acrobot
from rlstudio.envs.worlds.mountaincar import MountainCar, MountainCarContinuous
from rlstudio.envs.worlds.native import NativeVecEnv

STATES = {
    "Acrobot-v1": ([-pi, -pi, -MAX_SPEED_1, -MAX_SPEED_2], [pi, pi, MAX_SPEED_1, MAX_SPEED_2]),
    "MountainCar-v0": ([-1.2, -0.07], [0.55, 0.07]),
    "MountainCarContinuous-v0": ([-1.2, -0.07], [0.5, 0.07]),
}
WORLDS = [Acrobot(), MountainCar(), MountainCarContinuous()]


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def draw_actions(world, rng, *shape):
    if world.id == "MountainCarContinuous-v0":
        return rng.uniform(-1.5, 1.5, (*shape, 1)).astype(np.float32)  # beyond the bounds too: both clip the force
    return rng.integers(0, 3, shape)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_spaces_and_limit_are_gymnasiums(world):
    env = gymnasium.make(world.id)
    assert convert_spaces(env, world.id) == world.spaces
    assert env.spec.max_episode_steps == world.limit


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_steps_equal_gymnasium(world, rng):
    env = gymnasium.make(world.id).unwrapped
    env.reset(seed=0)
    states = rng.uniform(*STATES[world.id], (3000, world.state_size))
    actions = draw_actions(world, rng, 3000)
    ours = world.dynamics(states, actions, world.params, np)
    steps = []
    for state, action in zip(states, actions, strict=True):
        env.state = state.copy()
        steps.append(env.step(action)[:3])
    observations, rewards, terminated = (np.array(column) for column in zip(*steps, strict=True))
    np.testing.assert_allclose(world.observe(ours.states, world.params, np), observations, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.rewards, rewards, rtol=1e-6, atol=1e-12)
    assert np.array_equal(ours.terminated, terminated)
    assert 10 < terminated.sum() < 2900


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_starts_fill_gymnasiums_range(world):
    ours = NativeVecEnv(world, 3000, seed=1).reset()
    env = gymnasium.make(world.id)
    theirs = np.stack([env.reset(seed=seed)[0] for seed in range(3000)])
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.005)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), atol=0.005)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_numpy_and_torch_agree_with_any_leading_dimensions(world, rng):
    states = rng.uniform(*STATES[world.id], (4, 5, world.state_size))
    actions = draw_actions(world, rng, 4, 5)
    ours = world.dynamics(states, actions, world.params, np)
    torchs = world.dynamics(torch.from_numpy(states), torch.from_numpy(actions), world.params, torch)
    for one, other in zip(ours[:3], torchs[:3], strict=True):
        np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-6, atol=1e-9)
    assert ours.rewards.shape == ours.terminated.shape == (4, 5)


def test_the_wall_stops_the_car():
    following = MountainCar().dynamics(np.array([[-1.19, -0.07]]), np.array([0]), MountainCar().params, np)
    assert following.states.tolist() == [[-1.2, 0.0]]
