"""Batcher: a rollout as shuffled minibatches, several passes over it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.rng import Rng


class Batcher:
    def __init__(self, batch_size: int, passes: int, rng: Rng) -> None:
        self.batch_size = batch_size
        self.passes = passes
        self.rng = rng
        self.count = 0

    def __call__(self, rollout: Batch) -> Iterator[Batch]:
        """Every row once per pass, in an order of its own; the last minibatch of a pass may be smaller.

        A pass is gathered once and cut into views: fewer and larger copies than one gather per minibatch.
        """
        flat = rollout.flatten()
        rows = len(flat)
        generator = self.rng.generator(self.count)
        self.count += 1
        for _ in range(self.passes):
            shuffled = flat.select(torch.from_numpy(generator.permutation(rows)))
            for start in range(0, rows, self.batch_size):
                yield shuffled.select(slice(start, start + self.batch_size))

    def state_dict(self) -> State:
        return {"count": self.count}

    def load_state_dict(self, state: State) -> None:
        self.count = int(state["count"])
