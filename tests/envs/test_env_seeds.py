import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.envs.seeds import EpisodeNoise, episode_key, episode_words, to_uniform

SEEDS = st.integers(0, 2**32 - 1)


def splitmix64(state: int) -> int:
    """Reference: Steele, Lea & Flood 2014, one output for a state."""
    word = state % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


@given(SEEDS, st.integers(0, 65535), st.integers(0, 10**6), st.integers(0, 3))
def test_words_follow_the_reference(seed, env, episode, draw):
    key, golden = episode_key(seed), 0x9E3779B97F4A7C15
    expected = splitmix64(splitmix64(splitmix64(key + env * golden) + episode * golden) + draw * golden)
    word = episode_words(key, *(np.array([value]) for value in (env, episode, draw)))
    assert int(word[0]) % 2**64 == expected


@given(SEEDS, st.lists(st.tuples(st.integers(0, 500), st.integers(0, 5000)), min_size=1, max_size=80))
def test_numbers_depend_on_the_address_only(seed, addresses):
    """However many are asked for together, in whatever order, in vectors of whatever size."""
    noise = EpisodeNoise(seed, 501, 4)
    envs, episodes = (np.array(column) for column in zip(*addresses, strict=True))
    rows = noise.rows(envs, episodes)
    for row, env, episode in zip(rows, envs.tolist(), episodes.tolist(), strict=True):
        assert np.array_equal(row, EpisodeNoise(seed, env + 1, 4).one(env, episode))


def test_they_look_uniform_and_independent():
    envs, episodes = np.meshgrid(np.arange(200), np.arange(100), indexing="ij")
    uniform = to_uniform(episode_words(episode_key(0), envs[..., None], episodes[..., None], np.arange(4)))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    counts = np.histogram(uniform, 16, (0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 45  # chi-square with 15 degrees of freedom
    flat = uniform - 0.5
    for left, right in ((flat[1:], flat[:-1]), (flat[:, 1:], flat[:, :-1]), (flat[..., 1:], flat[..., :-1])):
        assert abs((left * right).mean() * 12) < 0.02


def test_seeds_differ_and_fit_a_signed_int():
    noise = EpisodeNoise(1, 64, 1)
    seeds = {noise.seed(env, episode) for env in range(64) for episode in range(64)}
    assert len(seeds) > 4090
    assert max(seeds) < 2**31
