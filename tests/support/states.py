"""States as they come back from a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def as_loaded(value: Any) -> Any:
    """A captured state as a checkpoint gives it back: arrays of its own, nothing shared with the living trainer."""
    if isinstance(value, dict):
        return {key: as_loaded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_loaded(part) for part in value]
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    return value.copy() if isinstance(value, np.ndarray) else value
