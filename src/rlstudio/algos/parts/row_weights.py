"""How much each row counts for a policy that learns from what others did."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.ops.means import standardize

LARGEST_WEIGHT = 20.0
"""Of exp(A / tau): a single lucky row must not be all that is learned."""


def planned(windows: Batch, learning_starts: int) -> Tensor:
    """Rows in which a planner acted count, those of the random start do not."""
    weights_N: Tensor = (windows.rows >= learning_starts).float()
    return weights_N if windows.weights is None else weights_N * windows.weights


def advantage_weights(advantages_N: Tensor, weights_N: Tensor | None, tau: float) -> Tensor:
    """exp(A / tau), with advantages in units of their spread (Peng et al. 2019, arXiv:1910.00177)."""
    found_N = torch.exp(standardize(advantages_N, weights_N) / tau).clamp(max=LARGEST_WEIGHT)
    return found_N if weights_N is None else found_N * weights_N
