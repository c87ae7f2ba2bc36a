"""Means over rows that may count differently. `weights` None means that all rows count the same."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.contracts import Group
from rlstudio.ops.group import ALONE
from rlstudio.ops.running import moments


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Sum of weight * value over sum of weights; zero where no row counts."""
    if weights is None:
        return values.mean()
    return (values * weights).sum() / weights.sum().clamp(min=1e-8)


def standardize(values: Tensor, weights: Tensor | None, group: Group = ALONE, eps: float = 1e-8) -> Tensor:
    """Mean zero, standard deviation one over the rows that count, of all ranks together."""
    if group.size > 1:
        # Every rank asks the same questions, whether or not one of its own rows has a weight.
        count, mean, square = moments(values.reshape(-1), weights, group)
        return (values - mean) / ((square / count.clamp(min=1e-8)).sqrt() + eps)
    if weights is None:
        # A lone row has no spread: it stands at its own mean, instead of at 0 / 0.
        std, mean = torch.std_mean(values, correction=min(values.numel() - 1, 1))
        return (values - mean) / (std + eps)
    mean = weighted_mean(values, weights)
    variance = weighted_mean((values - mean).square(), weights)
    return (values - mean) / (variance.sqrt() + eps)


def explained_variance(predictions: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """1 - Var[target - prediction] / Var[target]: 1 is perfect, 0 a constant guess, NaN if targets are constant."""
    errors = targets - predictions
    noise = weighted_mean((errors - weighted_mean(errors, weights)).square(), weights)
    spread = weighted_mean((targets - weighted_mean(targets, weights)).square(), weights)
    return torch.where(spread > 0, 1.0 - noise / spread, torch.nan)
