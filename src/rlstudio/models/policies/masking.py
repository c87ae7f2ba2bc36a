"""Masking: forbidden choices out of logits and values, where the observation carries an action mask."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.action_mask import FORBIDDEN, ActionMask
from rlstudio.core.model.layers import Observations
from rlstudio.core.spaces import Spaces


class Masking:
    """Replaces the numbers of forbidden choices; without a mask in the observations it does nothing.

    No gradient reaches a replaced number, and since its probability is exactly zero, log-probabilities and entropy are
    those of the distribution over the allowed choices alone.
    """

    def __init__(self, spaces: Spaces) -> None:
        self._mask = ActionMask.of(spaces)

    def __call__(self, outputs: Tensor, observations: Observations) -> Tensor:
        """`outputs` [..., choices] or [..., choices, K], as the observations have leading dimensions."""
        if self._mask is None:
            return outputs
        allowed = self._mask.allowed(observations)
        return torch.where(allowed if allowed.dim() == outputs.dim() else allowed.unsqueeze(-1), outputs, FORBIDDEN)
