"""Building Models on flat storage, and which variant a network section asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import settled
from rlstudio.models.policies.central import CentralPolicyValue
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.models.policies.recurrent import RecurrentPolicyValue
from rlstudio.models.refusals import check_critic, check_exploration, check_memory
from rlstudio.ops.flat import flatten

M = TypeVar("M", bound=nn.Module)
PolicyValueModel = PolicyValue | RecurrentPolicyValue | CentralPolicyValue


def build_model(
    variant: Callable[[Spaces, NetworkConfig, Rng], M],
    spaces: Spaces,
    network: NetworkConfig,
    rng: Rng,
    device: str = "cpu",
) -> M:
    """A Model on flat storage from its first moment, so that acting kernels may hold views of its weights."""
    model = variant(spaces, settled(network, spaces), rng).to(device)
    check_memory(model, network)
    check_critic(model, network)
    flatten(model)
    return model


def build_policy_value(spaces: Spaces, network: NetworkConfig, rng: Rng, device: str = "cpu") -> PolicyValueModel:
    """The policy-value Model that the network section describes: with or without memory, or with a central critic."""
    if network.critic == "central" and network.memory == "none" and network.exploration == "independent":
        return build_model(CentralPolicyValue, spaces, network, rng, device)
    if network.memory == "none":
        return build_model(PolicyValue, spaces, network, rng, device)
    check_exploration(network)
    return build_model(RecurrentPolicyValue, spaces, network, rng, device)
