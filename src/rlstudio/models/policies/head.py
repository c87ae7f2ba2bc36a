"""The last step of a policy network: its outputs become a policy over the action space."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import Categorical, Gaussian, MultiCategorical, Policy
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Space, describe
from rlstudio.models.policies.state_dependent import StateDependentStd


class PolicyHead(nn.Module):
    """forward(outputs) -> policy. With state-dependent `exploration` it also takes what the last hidden layer gave."""

    def __init__(self, space: Space, log_std_init: float, exploration: StateDependentStd | None = None) -> None:
        super().__init__()
        match space:
            case Discrete():
                self.outputs = space.n
            case MultiDiscrete():
                self.outputs = sum(space.nvec)
            case Box() if len(space.shape) == 1:
                self.outputs = space.size
                if exploration is None:
                    self.log_std = nn.Parameter(torch.full((1, space.size), log_std_init))
            case _:
                raise Incompatible(
                    f"no policy head for actions {describe(space)}; flatten them to Box, Discrete or MultiDiscrete"
                )
        self.space = space
        self.exploration = exploration

    def forward(self, outputs: Tensor, hidden: Tensor | None = None) -> Policy:
        match self.space:
            case Discrete():
                return Categorical(outputs)
            case MultiDiscrete():
                return MultiCategorical(outputs, self.space.nvec)
        return Gaussian(outputs, self.log_std if self.exploration is None else self.exploration(hidden))
