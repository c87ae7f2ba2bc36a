"""Noise by the block: numbers of vector step n are a pure function of n, however the steps are cut into rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rlstudio.core.contracts import NoiseBlock
from rlstudio.core.rng import Rng

BLOCK = 256  # vector steps; one draw per block is several times cheaper than one per step

Draw = Callable[[np.random.Generator, int, int], NoiseBlock]


class Share(NamedTuple):
    """Environments `first`, `first` + 1, ... of `total` that draw their noise together: what one of them gets does not
    depend on which of the others are in the same process."""

    first: int
    total: int


class NoiseBlocks:
    """`blocks.at(n)` is the noise of vector step n. Nothing to save: a resumed run draws the same block again."""

    def __init__(self, draw: Draw, rng: Rng, num_envs: int, share: Share | None = None) -> None:
        """Of all environments, or of their `share`: then the noise of all is drawn, and theirs is taken."""
        self.draw = draw
        self.rng = rng
        self.num_envs = num_envs if share is None else share.total
        self._columns = None if share is None else slice(share.first, share.first + num_envs)
        self._number = -1
        self._block: NoiseBlock

    def at(self, step: int) -> np.ndarray:
        number, row = divmod(step, BLOCK)
        if number != self._number:
            self._block = self.draw(self.rng.generator(number), BLOCK, self.num_envs)
            self._number = number
        noise = self._block[row]
        return noise if self._columns is None else noise[self._columns]
