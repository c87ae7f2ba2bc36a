"""What an operation with a gradient of its own gets from torch between its two ways, as far as ours use it."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class GradientContext(Protocol):
    """The `ctx` of a `torch.autograd.Function`; torch itself declares it piece by piece."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]: ...

    @property
    def needs_input_grad(self) -> tuple[bool, ...]: ...

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def mark_non_differentiable(self, *outputs: Tensor) -> None: ...
