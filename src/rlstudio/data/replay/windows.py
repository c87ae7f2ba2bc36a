"""Windows, pieces of several successive steps, seen as one transition each."""

from __future__ import annotations

import torch

from rlstudio.core.batch import Batch
from rlstudio.ops.returns import n_step


def transitions(windows: Batch, gamma: float) -> Batch:
    """Windows [H, N] as n-step transitions [N], each over as many steps as its episode goes on."""
    sums_N, last_N, discounts_N = n_step(windows.rewards, windows.dones, gamma)
    ends = (last_N, torch.arange(len(last_N), device=last_N.device))
    infos = {"info": {key: column[ends] for key, column in windows.info.items()}} if "info" in windows else {}
    return (
        windows.select(slice(0, 1))
        .flatten()
        .with_(
            rewards=sums_N,
            discounts=discounts_N,
            next_observations=windows.next_observations[ends],
            terminated=windows.terminated[ends],
            truncated=windows.truncated[ends],
            **infos,
        )
    )
