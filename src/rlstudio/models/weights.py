"""Putting stored weights into a Model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn


def load_weights(model: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Names, shapes and dtypes must be the Model's own, or an error names the first that is not."""
    expected = model.state_dict()
    for name, array in weights.items():
        own = expected.get(name)
        if own is not None and (tuple(own.shape) != array.shape or own.numpy(force=True).dtype != array.dtype):
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, the Model has {own.dtype}{list(own.shape)}")
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=True)
