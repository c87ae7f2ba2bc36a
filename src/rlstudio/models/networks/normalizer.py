"""Observation normalizer: running statistics inside the Model, so that what was trained is what ships.

Statistics are fixed while a step collects and learns, and folded in at its end (`update`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.contracts import Group
from rlstudio.core.model.layers import Moments
from rlstudio.ops.group import ALONE
from rlstudio.ops.running import merge_moments

CLIP = 10.0


class Normalizer(nn.Module):
    """(x - mean) / std, clipped to +-10. Before the first update it is the identity (up to the clip)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("running_mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("running_square", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("inverse_std", torch.ones(size))

    count: Tensor
    running_mean: Tensor
    running_square: Tensor
    mean: Tensor
    inverse_std: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * self.inverse_std).clamp(-CLIP, CLIP)

    def moments(self) -> Moments:
        """What it does, as the buffers themselves."""
        return Moments(self.mean, self.inverse_std, CLIP)

    @torch.no_grad()
    def update(self, rows: Tensor, weights: Tensor | None = None, group: Group = ALONE) -> None:
        """Fold rows [N, size] of all ranks in, but for those that are not finite. Buffers change in place: acting
        kernels hold views of them."""
        if group.size == 1 and not len(rows):
            return
        is_finite = rows.isfinite().all(-1)
        if not is_finite.all():  # one such row would spoil the statistics for ever
            weights = is_finite.to(rows.dtype) if weights is None else weights * is_finite
            rows = torch.where(is_finite[:, None], rows, 0.0)
        before = (self.count, self.running_mean, self.running_square)
        count, mean, square = merge_moments(*before, rows, weights, group)
        self.count.copy_(count)
        self.running_mean.copy_(mean)
        self.running_square.copy_(square)
        self.mean.copy_(mean)
        variance = square / count.clamp(min=1.0)
        self.inverse_std.copy_(torch.where(count > 0, 1.0 / torch.sqrt(variance + 1e-8), 1.0))
