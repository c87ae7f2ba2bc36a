"""Worlds that show only part of themselves: CartPole without velocities, and Recall."""

import numpy as np
import pytest

from rlstudio.core.errors import ConfigError
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env
from rlstudio.envs.worlds.cartpole import CartPole, CartPoleNoVel
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.envs.worlds.recall import Recall


@pytest.mark.parametrize("num_envs", [1, 3])
def test_cartpole_without_velocities_is_cartpole_with_two_numbers_hidden(num_envs):
    whole, part = NativeVecEnv(CartPole(), num_envs, 3), NativeVecEnv(CartPoleNoVel(), num_envs, 3)
    assert part.spaces.observation.shape == (2,)
    assert np.array_equal(whole.reset()[:, ::2], part.reset())
    choices = np.random.default_rng(0).integers(0, 2, (120, num_envs))
    for actions in choices:
        one, other = whole.step(actions), part.step(actions)
        assert np.array_equal(one.observations[:, ::2], other.observations)
        assert np.array_equal(one.successors[:, ::2], other.successors)
        assert np.array_equal(one.terminated, other.terminated)
    again = NativeVecEnv(CartPoleNoVel(), num_envs, 9)
    assert np.array_equal(again.seek(part.position()), other.observations)


def test_it_is_an_env_of_ours_by_name():
    env = make_vec_env(EnvConfig(id="rlstudio/CartPoleNoVel-v1", num_envs=2))
    assert env.vectorization == "native"
    single = make_single(EnvConfig(id="rlstudio/CartPoleNoVel-v1"), render_mode="rgb_array")
    assert single.reset(seed=0)[0].shape == (2,)
    assert single.render().shape[2] == 3


def test_recall_shows_the_cue_once_and_asks_for_it_in_the_end():
    vec = NativeVecEnv(Recall(k=3, delay=2), 64, 0)
    observations, guesses = vec.reset(), np.arange(64) % 3
    for _ in range(2):
        cues = observations.argmax(-1)
        for t in range(3):
            step = vec.step(guesses)
            assert step.terminated.all() == (t == 2)
            assert not step.successors.any()
            assert np.array_equal(step.rewards, (t == 2) * (guesses == cues))
        observations = step.observations
        assert (observations.sum(-1) == 1).all()  # the next cue
    assert set(observations.argmax(-1)) == {0, 1, 2}


def test_recall_refuses_what_it_cannot_be():
    with pytest.raises(ConfigError, match="k must be at least 2 and delay at least 1"):
        make_vec_env(EnvConfig(id="rlstudio/Recall-v0", kwargs={"delay": 0}))
