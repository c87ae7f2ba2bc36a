"""What every algorithm's `train:` section has. Each algorithm extends it with its own fields."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from rlstudio.core.config import Config


class TrainConfig(Config):
    epochs: PositiveInt = Field(50, le=10**9)
    """Outer units of the run: each reports once."""

    steps_per_epoch: PositiveInt = Field(4096, le=10**9)
    """Environment steps per epoch, all environments together."""

    batch_size: PositiveInt = Field(256, le=10**7)
    """Rows of one minibatch."""

    lr: PositiveFloat = Field(3e-4, le=10.0)
    """Learning rate at the start."""

    lr_schedule: Literal["constant", "linear"] = "constant"
    """`linear` goes from `lr` to zero over the run."""

    gamma: float = Field(0.99, ge=0.0, le=1.0)
    """Discount."""

    max_grad_norm: PositiveFloat | None = 0.5
    """Gradients are scaled down to this norm; null switches it off."""

    off_policy: bool | None = None
    """May be stated; refused when it contradicts the algorithm."""

    @property
    def total_steps(self) -> int:
        return self.epochs * self.steps_per_epoch
