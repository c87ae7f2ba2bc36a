"""Batcher: a rollout as shuffled minibatches, several passes over it.

Rows that know what was remembered before them (column `carry`) are shuffled as whole sequences [L, b], since a memory
learns through time; all others one by one [N].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError
from rlstudio.core.rng import Rng


class Batcher:
    def __init__(self, batch_size: int, passes: int, rng: Rng, sequence_length: int | None = None) -> None:
        """`sequence_length` None: a sequence is as long as the rollout."""
        self.batch_size = batch_size
        self.passes = passes
        self.sequence_length = sequence_length
        self.rng = rng
        self.count = 0

    def __call__(self, rollout: Batch) -> Iterator[Batch]:
        """Every row once per pass, in an order of its own; the last minibatch of a pass may be smaller.

        A pass is gathered once and cut into views: fewer and larger copies than one gather per minibatch.
        """
        generator = self.rng.generator(self.count)
        self.count += 1
        if "carry" in rollout:
            yield from self._of_sequences(rollout.sequences(self.sequence_length or len(rollout)), generator)
            return
        flat = rollout.flatten()
        rows = len(flat)
        for _ in range(self.passes):
            shuffled = flat.select(torch.from_numpy(generator.permutation(rows)))
            for start in range(0, rows, self.batch_size):
                yield shuffled.select(slice(start, start + self.batch_size))

    def _of_sequences(self, sequences: Batch, generator: np.random.Generator) -> Iterator[Batch]:
        """As many sequences as `batch_size` rows hold, at least one."""
        length, count = sequences.shape
        size = max(self.batch_size // length, 1)
        for _ in range(self.passes):
            order = torch.from_numpy(generator.permutation(count))
            for start in range(0, count, size):
                yield sequences.pick(order[start : start + size])

    def state_dict(self) -> State:
        return {"count": self.count}

    def load_state_dict(self, state: State) -> None:
        self.count = int(state["count"])


def check_sequences(length: int | None, steps: int, remembers: bool) -> None:
    """Refuse a `train.sequence_length` that cuts no rollout of so many steps."""
    if length is not None and (not remembers or steps % length):
        why = f"must divide the {steps} steps of a rollout" if remembers else "policy.network.memory is none"
        raise ConfigError(f"train.sequence_length: {why}; leave it out")
