"""The bounds of a continuous action space, as a Model sees them: between the environment's numbers and [-1, 1]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Space, describe


class Bounds(nn.Module):
    """`scale` is half the width of each bound, `shift` its middle. The space gives them, so no checkpoint has them."""

    scale: Tensor
    shift: Tensor

    def __init__(self, space: Space) -> None:
        super().__init__()
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise Incompatible(f"a bounded policy needs a row of numbers as actions; the env takes {describe(space)}")
        if not space.bounded:
            raise Incompatible(f"actions without bounds cannot be scaled to them: {describe(space)}; try ppo or a2c")
        low, high = (torch.tensor(side, dtype=torch.float32) for side in space.bounds())
        self.size = space.size
        self.register_buffer("scale", (high - low) / 2, persistent=False)
        self.register_buffer("shift", (high + low) / 2, persistent=False)

    def unit(self, actions: Tensor) -> Tensor:
        """Actions of the environment, scaled to [-1, 1]."""
        return (actions - self.shift) / self.scale

    def actions(self, unit: Tensor) -> Tensor:
        """Numbers in [-1, 1], scaled to the environment's bounds."""
        return unit * self.scale + self.shift
