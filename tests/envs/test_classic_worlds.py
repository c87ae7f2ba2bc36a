"""Our CartPole and Pendulum against Gymnasium's, from the same states, over thousands of steps."""

import gymnasium
import numpy as np
import pytest

from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.worlds.cartpole import THETA_LIMIT, X_LIMIT, CartPole, CartPoleKernel
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.envs.worlds.pendulum import Pendulum


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("world", [CartPole(), Pendulum()], ids=lambda world: world.id)
def test_spaces_and_limit_are_gymnasiums(world):
    env = gymnasium.make(world.id)
    assert convert_spaces(env, world.id) == world.spaces
    assert env.spec.max_episode_steps == world.limit


def test_cartpole_steps_equal_gymnasium(rng):
    world, env = CartPole(), gymnasium.make("CartPole-v1").unwrapped
    states = rng.uniform([-2.5, -3, -0.22, -3], [2.5, 3, 0.22, 3], (4000, 4))
    actions = rng.integers(0, 2, 4000)
    ours = world.dynamics(states, actions, world.params, np)
    env.reset(seed=0)
    ends = 0
    for row, (state, action) in enumerate(zip(states, actions, strict=True)):
        env.state, env.steps_beyond_terminated = state, None
        observation, reward, terminated, _, _ = env.step(action)
        np.testing.assert_allclose(ours.states[row], env.state, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(world.observe(ours.states[row], world.params, np), observation, rtol=1e-6)
        assert (ours.rewards[row], ours.terminated[row]) == (reward, terminated)
        ends += terminated
    assert 300 < ends < 3700


def test_pendulum_steps_equal_gymnasium(rng):
    world, env = Pendulum(), gymnasium.make("Pendulum-v1").unwrapped
    states = rng.uniform([-20, -8], [20, 8], (3000, 2))
    actions = rng.uniform(-3, 3, (3000, 1)).astype(np.float32)  # beyond the bounds too: both clip
    ours = world.dynamics(states, actions, world.params, np)
    env.reset(seed=0)
    for row, (state, action) in enumerate(zip(states, actions, strict=True)):
        env.state = state
        observation, reward, terminated, _, _ = env.step(action)
        np.testing.assert_allclose(ours.states[row], env.state, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(world.observe(ours.states[row], world.params, np), observation, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours.rewards[row], reward, rtol=1e-6)
        assert not terminated
        assert not ours.terminated[row]


def test_whole_episodes_equal_gymnasium(rng):
    """Native vector against a Gymnasium env with its TimeLimit: rewards, ends and limits of many episodes.

    The state is handed over before each step: an unstable pole blows up the last bit's difference within one episode.
    """
    vec, env = NativeVecEnv(CartPole(), 1, seed=5), gymnasium.make("CartPole-v1")
    vec.reset()
    env.reset()
    kinds = set()
    for elapsed in range(3000):
        env.unwrapped.state = state = vec.position()["states"][0]
        # First a policy that survives, then nearly blind play: both kinds of end occur.
        blur = rng.normal(0, 0.02 if elapsed < 1500 else 2.0)
        action = int(state[2] + 0.3 * state[3] + 0.05 * state[0] + 0.1 * state[1] > blur)
        observation, reward, terminated, truncated, _ = env.step(action)
        step = vec.step(np.array([action]))
        np.testing.assert_allclose(step.successors[0], observation, rtol=1e-5, atol=1e-6)
        assert (step.rewards[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated)
        if terminated or truncated:
            kinds.add((terminated, truncated))
            env.reset()
    assert kinds >= {(True, False), (False, True)}


@pytest.mark.parametrize(("world", "limit"), [(CartPole(), 500), (Pendulum(), 200)])
def test_truncated_exactly_at_the_limit(world, limit):
    vec = NativeVecEnv(world, 2, seed=0)
    vec.reset()
    if world.id == "CartPole-v1":  # upright and at rest it would survive; hold it there so that only time can end it
        held = np.zeros((2, 4))
        vec._kernel.place(np.arange(2), held)
    for elapsed in range(1, limit + 1):
        if world.id == "CartPole-v1":
            vec._kernel.place(np.arange(2), held)
            step = vec.step(np.array([0, 1]))
        else:
            step = vec.step(np.zeros((2, 1), np.float32))
        assert step.truncated.tolist() == [elapsed == limit] * 2
        assert not step.terminated.any()
    assert vec.position()["elapsed"].tolist() == [0, 0]
    assert vec.position()["episodes"].tolist() == [1, 1]


def test_the_kernel_gives_the_bits_of_the_pure_dynamics(rng):
    kernel, world = CartPoleKernel(32, CartPole.params), CartPole()
    states = rng.uniform([-2, -3, -0.2, -3], [2, 3, 0.2, 3], (32, 4))
    kernel.place(np.arange(32), states)
    for _ in range(50):
        actions = rng.integers(0, 2, 32)
        states, rewards, terminated, _ = world.dynamics(states, actions, world.params, np)
        kernel.advance(actions)
        assert np.array_equal(kernel.states(), states)
        assert np.array_equal(kernel.terminated, terminated)
        assert np.array_equal(kernel.rewards, rewards)
        assert np.array_equal(kernel.observations, world.observe(states, world.params, np).astype(np.float32))


def test_dynamics_take_any_leading_dimensions(rng):
    for world, actions in ((CartPole(), rng.integers(0, 2, (2, 3, 5))), (Pendulum(), rng.uniform(-2, 2, (2, 3, 5, 1)))):
        states = world.initial(rng.random((2, 3, 5, world.noise_size)), world.params, np)
        following = world.dynamics(states, actions, world.params, np)
        flat = world.dynamics(states.reshape(30, -1), actions.reshape(30, *actions.shape[3:]), world.params, np)
        assert np.array_equal(following.states.reshape(30, -1), flat.states)
        assert following.rewards.shape == following.terminated.shape == (2, 3, 5)


def test_an_impossible_action_is_an_error():
    vec = NativeVecEnv(CartPole(), 2, 0)
    vec.reset()
    with pytest.raises(IndexError):
        vec.step(np.array([0, 2]))


def test_initial_states_fill_gymnasiums_ranges():
    vec = NativeVecEnv(CartPole(), 4000, 1)
    first = vec.reset()
    assert (np.abs(first) <= 0.05).all()
    np.testing.assert_allclose(first.std(0), 0.1 / 12**0.5, rtol=0.05)
    np.testing.assert_allclose(first.mean(0), 0, atol=0.002)
    first = NativeVecEnv(Pendulum(), 4000, 1).reset()
    assert np.abs(first[:, 2]).max() <= 1
    assert abs(first[:, 0].mean()) < 0.05
    assert (X_LIMIT, round(THETA_LIMIT, 4)) == (2.4, 0.2094)
