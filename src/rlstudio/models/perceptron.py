"""An MLP in plain operations, from copies of its weights: what exporters can follow (`models/plain.py` says why)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlstudio.core.model.layers import Linear
from rlstudio.models.networks.initialize import linear
from rlstudio.models.networks.mlp import ACTIVATIONS, MLP


class Perceptron(nn.Module):
    """Linear layers with one activation between them, over any leading dimensions."""

    def __init__(self, linears: Sequence[Linear], activation: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copied_linear(layer) for layer in linears)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = self.activation(layer(x))
        outputs: Tensor = last(x)
        return outputs


def plain_parts(module: nn.Module) -> None:
    """Put the plain form in the place of every MLP inside a Module, which is a copy of the caller's own."""
    for name, child in module.named_children():
        if isinstance(child, MLP):
            setattr(module, name, Perceptron(child.linears(), child.activation))
        else:
            plain_parts(child)


@torch.no_grad()
def copied_linear(layer: Linear) -> nn.Linear:
    """In memory of its own: a view of the flat buffer would drag all of it along."""
    same = linear(layer.weight.shape[1], layer.weight.shape[0])
    same.weight.copy_(layer.weight)
    same.bias.copy_(layer.bias)
    return same
