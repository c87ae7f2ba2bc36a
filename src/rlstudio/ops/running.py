"""Running mean and variance of a stream of rows, merged block by block (Chan et al. 1979)."""

from __future__ import annotations

import torch
from torch import Tensor


def merge_moments(
    count: Tensor, mean: Tensor, square: Tensor, rows: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Moments (count, mean, sum of squared deviations) after `rows` [N, ...]; rows of weight zero do not count."""
    rows = rows.to(mean.dtype)
    if weights is None:
        added = torch.full_like(count, float(rows.shape[0]))
        row_mean = rows.mean(0)
        row_square = (rows - row_mean).square().sum(0)
    else:
        w = weights.to(mean.dtype).reshape(-1, *[1] * (rows.dim() - 1))
        added = w.sum()
        row_mean = (rows * w).sum(0) / added.clamp(min=1e-12)
        row_square = ((rows - row_mean).square() * w).sum(0)
    total = count + added
    delta = row_mean - mean
    share = added / total.clamp(min=1e-12)
    return total, mean + delta * share, square + row_square + delta.square() * count * share
