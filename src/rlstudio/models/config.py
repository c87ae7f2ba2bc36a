"""The network section of an experiment: how Models are built. Free of torch, so that it validates at once."""

from typing import Literal

from pydantic import Field, PositiveInt

from rlstudio.core.config import Config

Activation = Literal["tanh", "relu", "silu", "gelu", "elu"]


class NetworkConfig(Config):
    hidden_sizes: tuple[PositiveInt, ...] = Field((64, 64), max_length=32)
    """Width of each hidden layer of an MLP; after a CNN, of the layers behind it."""

    activation: Activation = "tanh"
    """Non-linearity after each hidden layer."""

    kind: Literal["auto", "mlp", "cnn"] = "auto"
    """`auto` takes a CNN for images and an MLP for everything else."""

    normalize_observations: bool = False
    """Standardise observations by running statistics that are part of the Model and ship with it."""

    log_std_init: float = Field(0.0, ge=-10, le=2)
    """First log standard deviation of Gaussian policies."""
