"""Running mean and variance of a stream of rows, merged block by block (Chan et al. 1979)."""

from __future__ import annotations

from torch import Tensor

from rlstudio.core.contracts import Group
from rlstudio.ops.group import ALONE


def moments(rows: Tensor, weights: Tensor | None = None, group: Group = ALONE) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and sum of squared deviations of `rows` [N, ...], those of all ranks together; rows of weight zero do
    not count. Of no rows everything is zero."""
    if weights is None and not len(rows):
        weights = rows.new_zeros(0)
    if weights is None:
        count = rows.new_full((), float(rows.shape[0]))
        mean = rows.mean(0)
        square = (rows - mean).square().sum(0)
    else:
        w = weights.to(rows.dtype).reshape(-1, *[1] * (rows.dim() - 1))
        count = w.sum()
        mean = (rows * w).sum(0) / count.clamp(min=1e-12)
        square = ((rows - mean).square() * w).sum(0)
    if group.size == 1:
        return count, mean, square
    total = group.sum(count)
    middle = group.sum(mean * count) / total.clamp(min=1e-12)
    return total, middle, group.sum(square + count * (mean - middle).square())


def merge_moments(
    count: Tensor,
    mean: Tensor,
    square: Tensor,
    rows: Tensor,
    weights: Tensor | None = None,
    group: Group = ALONE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Moments (count, mean, sum of squared deviations) after `rows` [N, ...]; rows of weight zero do not count."""
    added, row_mean, row_square = moments(rows.to(mean.dtype), weights, group)
    total = count + added
    delta = row_mean - mean
    share = added / total.clamp(min=1e-12)
    return total, mean + delta * share, square + row_square + delta.square() * count * share
