"""Windows: pieces of several successive steps, for models of whole sequences."""

from __future__ import annotations

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.data.replay.source import ReplaySource
from rlstudio.ops.returns import n_step


class WindowSource(ReplaySource):
    """As ReplaySource, with `horizon` successive rows in place of an n-step transition."""

    def _draw(self, generator: np.random.Generator) -> Batch:
        return self.replay.windows(self.batch_size, generator, self.horizon)


def transitions(windows: Batch, gamma: float) -> Batch:
    """Windows [H, N] as n-step transitions [N], each over as many steps as its episode goes on."""
    sums_N, last_N, discounts_N = n_step(windows.rewards, windows.dones, gamma)
    ends = (last_N, torch.arange(len(last_N), device=last_N.device))
    return (
        windows.select(slice(0, 1))
        .flatten()
        .with_(
            rewards=sums_N,
            discounts=discounts_N,
            next_observations=windows.next_observations[ends],
            terminated=windows.terminated[ends],
            truncated=windows.truncated[ends],
        )
    )
