"""A part of a run's environments, made by itself, plays the episodes that it would play among all of them."""

import numpy as np
import pytest

from rlstudio.core.errors import ConfigError
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env


@pytest.mark.parametrize("vectorization", ["native", "sync", "async"])
@pytest.mark.parametrize("params", [{}, {"gravity": {"uniform": [5, 15]}}], ids=["plain", "drawn"])
def test_the_parts_of_a_vector_play_its_episodes(vectorization, params):
    cfg = EnvConfig(id="CartPole-v1", num_envs=4, seed=3, vectorization=vectorization, params=params)
    vectors = [make_vec_env(cfg), make_vec_env(cfg, 2), make_vec_env(cfg, 2, first_env=2)]
    try:
        whole, *parts = (vector.reset().copy() for vector in vectors)
        assert np.array_equal(whole, np.concatenate(parts))
        assert not np.array_equal(*parts)
        generator = np.random.default_rng(0)
        for _ in range(40):  # episodes end and begin anew meanwhile
            actions = generator.integers(0, 2, 4)
            asked = (actions, actions[:2], actions[2:])
            steps = [vector.step(own) for vector, own in zip(vectors, asked, strict=True)]
            whole, *parts = (step.observations.copy() for step in steps)
            assert np.array_equal(whole, np.concatenate(parts))
        last = vectors[2]
        assert vectors[0].describe_episode(3) == last.describe_episode(1)
        position = last.position()  # which plays its first steps again
        assert last.exact is None
        assert np.array_equal(last.seek(position), parts[1])
    finally:
        for vector in vectors:
            vector.close()


def test_pettingzoo_has_no_parts():
    with pytest.raises(ConfigError, match="cannot be a part of a run's environments"):
        make_vec_env(EnvConfig(id="pettingzoo/classic/tictactoe-v3", num_envs=1), first_env=1)
