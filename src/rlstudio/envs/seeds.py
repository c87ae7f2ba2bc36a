"""Numbers of one episode: a pure function of (seed, env, episode), whatever the other envs did.

A counter hash (SplitMix64's finaliser, Steele et al. 2014) instead of a generator per episode: it runs over any number
of envs and episodes at once, on NumPy and on torch alike, and gives both the same bits. Computing one number costs as
much as computing a thousand, so few resets are served from small tiles computed ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from rlstudio.core.contracts.arrays import AnyArray
from rlstudio.core.rng import Rng

TILE_ENVS, TILE_EPISODES = 64, 16
FEW = 32  # up to here picking rows out of tiles beats hashing them afresh

GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed word: int64 wraps alike in NumPy and torch
FIRST, SECOND = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


ToFloat64 = Callable[[AnyArray], AnyArray]
NUMPY_FLOAT64 = cast(ToFloat64, np.float64)


def _mix(word: AnyArray) -> AnyArray:
    """SplitMix64's finaliser on int64 words; the masks make the arithmetic shifts logical."""
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * FIRST
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * SECOND
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


def episode_words(key: int, envs: AnyArray, episodes: AnyArray, draws: AnyArray) -> AnyArray:
    """Random int64 words; the index arrays broadcast against each other."""
    word = _mix(envs * GOLDEN + key)
    word = _mix(word + episodes * GOLDEN)
    return _mix(word + draws * GOLDEN)


def to_uniform(words: AnyArray, to_float64: ToFloat64 = NUMPY_FLOAT64) -> AnyArray:
    """Words to float64 in [0, 1) with 53 random bits; torch would fall back to float32, so it brings its own cast."""
    return to_float64((words >> 11) & (2**53 - 1)) * 2.0**-53


def episode_key(seed: int) -> int:
    """The hash key of a master seed, drawn from its address in the tree of streams."""
    return int(Rng(seed).fork("envs").generator().integers(-(2**63), 2**63, dtype=np.int64))


def first_seeds(seed: int, num_envs: int) -> list[int]:
    """The seed of each environment's first episode."""
    noise = EpisodeNoise(seed, num_envs, 1)
    return [noise.seed(env, 0) for env in range(num_envs)]


def episode_name(seed: int, env: int, episode: int) -> str:
    """How a message names an episode of a plain environment: with the seed that `reset` got."""
    return f"episode {episode} (seed {EpisodeNoise(seed, env + 1, 1).seed(env, episode)})"


def worker_seed(seed: int, first_env: int) -> int:
    """For the global generators of a worker process, by its first environment: no two workers share numbers."""
    return int(Rng(seed).at("workers", first_env).integers(2**32))


class EpisodeNoise:
    """`size` uniform numbers for the start of each episode."""

    def __init__(self, seed: int, num_envs: int, size: int) -> None:
        self.key = episode_key(seed)
        self.size = size
        self._draws = np.arange(size, dtype=np.int64)
        self._tiles: dict[tuple[int, int], np.ndarray] = {}
        self._max_tiles = 4 * (num_envs // TILE_ENVS + 1)

    def rows(self, envs: np.ndarray, episodes: np.ndarray) -> np.ndarray:
        """Noise [n, size] of these episodes."""
        if len(envs) > FEW:
            return self._hash(envs[:, None], episodes[:, None])
        noise = np.empty((len(envs), self.size))
        for row, (env, episode) in enumerate(zip(envs.tolist(), episodes.tolist(), strict=True)):
            noise[row] = self.one(env, episode)
        return noise

    def one(self, env: int, episode: int) -> np.ndarray:
        """Noise [size] of one episode."""
        address = env // TILE_ENVS, episode // TILE_EPISODES
        tile = self._tiles.get(address)
        if tile is None:
            tile = self._tile(*address)
        row: np.ndarray = tile[env % TILE_ENVS, episode % TILE_EPISODES]
        return row

    def seed(self, env: int, episode: int) -> int:
        """A seed for `reset`: 31 bits, since some simulators keep it in a signed int."""
        return int(self.one(env, episode)[0] * 2**31)

    def _tile(self, group: int, block: int) -> np.ndarray:
        if (
            len(self._tiles) >= self._max_tiles
        ):  # the oldest is the least likely to be asked again; it can be recomputed
            del self._tiles[next(iter(self._tiles))]
        envs = np.arange(group * TILE_ENVS, (group + 1) * TILE_ENVS, dtype=np.int64)
        episodes = np.arange(block * TILE_EPISODES, (block + 1) * TILE_EPISODES, dtype=np.int64)
        tile = self._tiles[group, block] = self._hash(envs[:, None, None], episodes[:, None])
        return tile

    def _hash(self, envs: np.ndarray, episodes: np.ndarray) -> np.ndarray:
        places = (cast(AnyArray, numbers) for numbers in (envs, episodes, self._draws))
        return cast(np.ndarray, to_uniform(episode_words(self.key, *places)))
