"""Flat storage: all parameters of a Model as views of one buffer, all gradients as views of another.

Norm, Adam, polyak averaging, all-reduce, broadcast, finite check and hash are then one operation each instead of one
per tensor: for small networks on a CPU that is most of the cost of a step. Each parameter starts on a 64-byte
boundary, so matrix products see the same alignment in every process and give the same bits.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

ALIGN = 16  # floats, i.e. 64 bytes


class Flat:
    """The flat buffers of one Model. Parameters keep their names and shapes; only their memory moves."""

    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        taken = [name for name, parameter in named.items() if hasattr(parameter, "_rlstudio_flat")]
        if taken:
            raise ValueError(f"parameter {taken[0]} is already in a flat buffer: a Model has one Optimizer")
        offsets, size = {}, 0
        for name, parameter in named.items():
            offsets[name] = size
            size += -(-parameter.numel() // ALIGN) * ALIGN
        first = next(iter(named.values()))
        self.data = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.grad = torch.zeros_like(self.data)
        self.layout = {name: (offset, tuple(named[name].shape)) for name, offset in offsets.items()}
        for name, parameter in named.items():
            view = self._view(self.data, name)
            view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = self._view(self.grad, name)
            parameter._rlstudio_flat = True  # type: ignore[attr-defined]

    def _view(self, buffer: Tensor, name: str) -> Tensor:
        offset, shape = self.layout[name]
        return buffer[offset : offset + prod(shape)].view(shape)


def flatten(model: nn.Module) -> Flat:
    """The Model's flat storage, made at the first call and found again at every later one."""
    flat = getattr(model, "_flat", None)
    if flat is None:
        flat = Flat(model)
        object.__setattr__(model, "_flat", flat)  # not a submodule, not in state_dict
    return flat
