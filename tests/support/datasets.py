"""A small Minari dataset of CartPole's spaces, for runs that learn from one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.datasets.episodes import RecordedEpisode
from rlstudio.data.datasets.minari_files import write_dataset

SPACES = Spaces(Box((4,), "float32", (-np.inf,), (np.inf,)), Discrete(2))
DATASET = "support/cartpole-v0"
STEPS = 40


@contextmanager
def recorded_dataset(folder: Path) -> Iterator[str]:
    """The id of a dataset that is found below `folder`: eight episodes that push the cart under the pole."""
    chance = np.random.default_rng(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(folder))
        episodes = [_episode(chance) for _ in range(8)]
        write_dataset(DATASET, episodes, SPACES, None, algorithm="rule", code="", description="")
        yield DATASET


def _episode(chance: np.random.Generator) -> RecordedEpisode:
    observations = chance.normal(size=(STEPS + 1, 4)).astype(np.float32)
    actions = (observations[:-1, 2] + observations[:-1, 3] > 0).astype(np.int64)
    ends = np.arange(STEPS) == STEPS - 1
    return RecordedEpisode(observations, actions, np.ones(STEPS), ends, np.zeros(STEPS, bool))
