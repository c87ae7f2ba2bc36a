"""The network section of an experiment: how Models are built. Free of torch, so that it validates at once."""

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, StrictBool

from rlstudio.core.config import Config

Activation = Literal["tanh", "relu", "silu", "gelu", "elu"]


MemoryKind = Literal["none", "gru", "lstm"]
MEMORY_PARTS: dict[MemoryKind, tuple[str, ...]] = {"none": (), "gru": ("h",), "lstm": ("h", "c")}
"""What each kind of memory carries from step to step; the first part is also what it shows."""


class NetworkConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("critic",)

    hidden_sizes: tuple[PositiveInt, ...] = Field((64, 64), max_length=32)
    """Width of each hidden layer of an MLP, or of the layers after a CNN."""

    activation: Activation = "tanh"
    """Non-linearity after each hidden layer."""

    kind: Literal["auto", "mlp", "cnn"] = "auto"
    """`auto` takes a CNN for images (in a dict, for each of at least 36 x 36) and an MLP for everything else."""

    memory: MemoryKind = "none"
    """Recurrent memory between the encoder and the networks, for partially observable environments."""

    memory_size: PositiveInt = Field(64, le=65536)
    """Units of the memory."""

    normalize_observations: StrictBool | Literal["numeric", "auto"] = False
    """Standardise observations by running statistics, which are part of the Model and exported with it. `numeric`:
    vectors of numbers, but not discrete observations or images; `auto`: the same, but only if actions are continuous or
    a vector is made of bytes."""

    log_std_init: float = Field(0.0, ge=-10, le=2)
    """First log standard deviation of Gaussian policies."""

    exploration: Literal["independent", "state_dependent"] = "independent"
    """Noise of continuous policies: drawn anew at each step, or a function of the state that stays the same for several
    steps."""

    exploration_hold: PositiveInt = Field(16, le=256)
    """Steps for which state-dependent noise stays the same function of the state."""

    critic: Literal["local", "central"] = "local"
    """Input of the value network of a policy-gradient algorithm. `local`: the observation of the agent; `central`: also
    its entry `state`, the state of the whole environment, which the policy does not see (MAPPO)."""


class PartNetworkConfig(Config):
    """The network of one part of a Model that has several."""

    hidden_sizes: tuple[PositiveInt, ...] | None = Field(None, max_length=32)
    """Width of each hidden layer; null takes those of `policy.network`."""

    activation: Activation | None = None
    """Non-linearity after each hidden layer; null takes that of `policy.network`."""

    def over(self, network: NetworkConfig) -> NetworkConfig:
        """The network of this part, where the rest is that of the whole Model."""
        given = {name: getattr(self, name) for name in PartNetworkConfig.model_fields}
        return network.model_copy(update={name: value for name, value in given.items() if value is not None})


class ValueConfig(PartNetworkConfig):
    """The network of a value, and how soon it is believed."""

    memory: PositiveInt | None = None
    """Rows over which its errors are averaged to say how far plans may trust it; null: 500, or a quarter of all rows so
    far if that is more."""
