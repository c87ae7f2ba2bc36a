"""Network sections that no Model can be built from, each refused in one line."""

from __future__ import annotations

from torch import nn

from rlstudio.core.errors import Incompatible
from rlstudio.models.config import NetworkConfig


def check_memory(model: nn.Module, network: NetworkConfig) -> None:
    """A Model that reads no carry would leave a memory out without a word."""
    if network.memory != "none" and "carry" not in getattr(model, "reads", ()):
        raise Incompatible(
            f"policy.network.memory: a {getattr(model, 'variant', type(model).__name__)} Model has no {network.memory};"
            " set it to none, or use ppo or a2c"
        )


def check_critic(model: nn.Module, network: NetworkConfig) -> None:
    """A Model without a value, or with one of its own kind, would leave a central critic out without a word."""
    if network.critic == "central" and not hasattr(model, "state_size"):
        raise Incompatible(
            f"policy.network.critic: a {getattr(model, 'variant', type(model).__name__)} Model has no central one; set"
            " it to local, or use ppo or a2c without memory and with independent exploration"
        )


def check_exploration(network: NetworkConfig) -> None:
    """Of a policy with memory."""
    if network.exploration != "independent":
        raise Incompatible(
            f"policy.network.exploration: a policy with memory ({network.memory}) has no {network.exploration} noise;"
            " set it to independent"
        )
