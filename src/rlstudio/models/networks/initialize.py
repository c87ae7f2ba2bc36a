"""Weights at birth, drawn from the part's own `Rng` (never from torch's global generator)."""

from __future__ import annotations

from math import sqrt
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from rlstudio.core.rng import Rng

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer without numbers in it yet: torch's own start would draw from the global generator."""
    return _with_memory(nn.Linear(inputs, outputs, device="meta"))


def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Conv2d:
    """The same for images."""
    return _with_memory(nn.Conv2d(inputs, outputs, kernel, stride, device="meta"))


def _with_memory(layer: Layer) -> Layer:
    """What `torch.nn.utils.skip_init` does, without importing sympy as that does: a fifth of the start of a run."""
    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(torch.empty(parameter.shape)))
    return layer


@torch.no_grad()
def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float, rng: Rng) -> None:
    """A random orthogonal matrix times `gain`, biases zero (Saxe et al. 2014): the usual start of actor-critic nets."""
    rows, cols = layer.weight.shape[0], layer.weight[0].numel()
    noise = rng.generator().standard_normal((max(rows, cols), min(rows, cols)))
    q, r = np.linalg.qr(noise)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    matrix = q if rows >= cols else q.T
    layer.weight.copy_(torch.from_numpy(gain * matrix).reshape(layer.weight.shape))
    if layer.bias is not None:
        layer.bias.zero_()


@torch.no_grad()
def fan_in_uniform(layer: nn.Linear | nn.Conv2d, rng: Rng) -> None:
    """Uniform within 1 / sqrt(inputs), torch's own default: the usual start of Q networks."""
    bound = 1.0 / sqrt(layer.weight[0].numel())
    generator = rng.generator()
    for parameter in layer.parameters():
        parameter.copy_(torch.from_numpy(generator.uniform(-bound, bound, tuple(parameter.shape))))
