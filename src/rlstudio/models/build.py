"""Building Models on flat storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.flat import flatten

M = TypeVar("M", bound=nn.Module)


def build_model(
    variant: Callable[[Spaces, NetworkConfig, Rng], M],
    spaces: Spaces,
    network: NetworkConfig,
    rng: Rng,
    device: str = "cpu",
) -> M:
    """A Model on flat storage from its first moment, so that acting kernels may hold views of its weights."""
    model = variant(spaces, network, rng).to(device)
    flatten(model)
    return model
