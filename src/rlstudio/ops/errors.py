"""Errors of value estimates, row by row."""

from __future__ import annotations

import torch
from torch import Tensor


def value_errors(values_N: Tensor, returns_N: Tensor, old_values_N: Tensor, clip: float | None) -> Tensor:
    """(V - R)^2; with `clip`, the larger of it and the same for V kept within `clip` of the old value.

    Like PPO's clipped ratio: a value that already moved far towards its return in this rollout gets no more push.
    """
    errors_N = (values_N - returns_N).square()
    if clip is None:
        return errors_N
    near_N = old_values_N + (values_N - old_values_N).clamp(-clip, clip)
    return torch.maximum(errors_N, (near_N - returns_N).square())
