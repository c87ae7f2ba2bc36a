"""Noise by the block: numbers of vector step n are a pure function of n, however the steps are cut into rollouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlstudio.core.contracts import NoiseBlock
from rlstudio.core.rng import Rng

BLOCK = 256  # vector steps; one draw per block is several times cheaper than one per step

Draw = Callable[[np.random.Generator, int, int], NoiseBlock]


class NoiseBlocks:
    """`blocks.at(n)` is the noise of vector step n. Nothing to save: a resumed run draws the same block again."""

    def __init__(self, draw: Draw, rng: Rng, num_envs: int) -> None:
        self.draw = draw
        self.rng = rng
        self.num_envs = num_envs
        self._number = -1
        self._block: NoiseBlock

    def at(self, step: int) -> np.ndarray:
        number, row = divmod(step, BLOCK)
        if number != self._number:
            self._block = self.draw(self.rng.generator(number), BLOCK, self.num_envs)
            self._number = number
        return self._block[row]
