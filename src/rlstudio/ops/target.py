"""Target networks: a slowly moving copy of a Model, refreshed by one operation on flat storage."""

from __future__ import annotations

from copy import deepcopy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from rlstudio.core.contracts import State
from rlstudio.ops.flat import Flat, flatten

M = TypeVar("M", bound=nn.Module)


class Target(Generic[M]):
    """`model` is the copy. It takes no gradients and changes only in `refresh`."""

    def __init__(self, source: M) -> None:
        self.source = flatten(source)
        self.model = deepcopy(source)
        object.__delattr__(self.model, "_flat")
        for parameter in self.model.parameters():
            parameter.grad = None
        self.flat: Flat = flatten(self.model)
        self.model.requires_grad_(False)
        self.calls = 0

    @torch.no_grad()
    def refresh(self, every: int = 1, tau: float = 1.0, skip: Tensor | None = None) -> None:
        """Every `every` calls move the copy by `tau` of the way, unless the tensor `skip` is true."""
        self.calls += 1
        if self.calls % every == 0:
            if skip is not None:
                self.flat.data.lerp_(self.source.data, tau * torch.logical_not(skip).float())
            elif tau == 1.0:
                self.flat.data.copy_(self.source.data)
            else:
                self.flat.data.lerp_(self.source.data, tau)

    @torch.no_grad()
    def start_over(self) -> None:
        """The copy is the Model as it is now: after it was given other weights."""
        self.flat.data.copy_(self.source.data)
        self.calls = 0

    def state_dict(self) -> State:
        return {"weights": self.flat.data, "calls": self.calls}

    def load_state_dict(self, state: State) -> None:
        self.flat.data.copy_(torch.as_tensor(state["weights"]))
        self.calls = int(state["calls"])
