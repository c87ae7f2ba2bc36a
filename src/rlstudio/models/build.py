"""Building Models on flat storage, which variant a network section asks for, and putting stored weights into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.models.policies.recurrent import RecurrentPolicyValue
from rlstudio.ops.flat import flatten

M = TypeVar("M", bound=nn.Module)


def build_model(
    variant: Callable[[Spaces, NetworkConfig, Rng], M],
    spaces: Spaces,
    network: NetworkConfig,
    rng: Rng,
    device: str = "cpu",
) -> M:
    """A Model on flat storage from its first moment, so that acting kernels may hold views of its weights. It keeps its
    `network` section, for whoever describes it."""
    model = variant(spaces, network, rng).to(device)
    if network.memory != "none" and not isinstance(model, RecurrentPolicyValue):
        raise Incompatible(
            f"policy.network.memory: a {getattr(model, 'variant', type(model).__name__)} Model has no {network.memory};"
            " set it to none, or use ppo or a2c"
        )
    flatten(model)
    object.__setattr__(model, "network", network)  # neither a submodule nor in state_dict
    return model


def load_weights(model: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Names, shapes and dtypes must be the Model's own."""
    expected = model.state_dict()
    for name, array in weights.items():
        own = expected.get(name)
        if own is not None and (tuple(own.shape) != array.shape or own.numpy(force=True).dtype != array.dtype):
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, the Model has {own.dtype}{list(own.shape)}")
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=True)


def build_policy_value(
    spaces: Spaces, network: NetworkConfig, rng: Rng, device: str = "cpu"
) -> PolicyValue | RecurrentPolicyValue:
    """The policy-value Model that the network section describes, with or without memory."""
    if network.memory == "none":
        return build_model(PolicyValue, spaces, network, rng, device)
    if network.exploration != "independent":
        raise Incompatible(
            f"policy.network.exploration: a policy with memory ({network.memory}) has no {network.exploration} noise;"
            " set it to independent"
        )
    return build_model(RecurrentPolicyValue, spaces, network, rng, device)
