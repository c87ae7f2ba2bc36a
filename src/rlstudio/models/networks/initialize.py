"""Weights at birth, drawn from the part's own `Rng` (never from torch's global generator), after the size of each layer
was checked: nothing is allocated for one that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod, sqrt
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.host.ram import usable_ram
from rlstudio.core.rng import Rng

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

MAX_WEIGHTS = 10**9
"""Of one layer."""

BYTES_PER_WEIGHT = 16  # itself, its gradient and two moments of the optimizer, in float32
ALWAYS_FITS = 10**6  # weights; the memory of the machine is asked for more only

_most_weights = ContextVar("the weights that a layer may have", default=MAX_WEIGHTS)


@contextmanager
def at_most(weights: int) -> Iterator[None]:
    """Within this block no layer is built that has more: a file cannot hold the weights of a larger one."""
    before = _most_weights.set(min(weights, MAX_WEIGHTS))
    try:
        yield
    finally:
        _most_weights.reset(before)


def check_size(*shape: int) -> None:
    """Refuse a layer of this shape where it is too large, before anything is allocated."""
    weights, most = prod(shape), _most_weights.get()
    described = f"a layer of {' x '.join(f'{size:,}' for size in shape)} has {weights:,} weights"
    if weights > most:
        raise Incompatible(f"{described}; at most {most:,} are accepted: lower hidden_sizes or memory_size")
    if weights > ALWAYS_FITS and weights * BYTES_PER_WEIGHT > usable_ram():
        needed, there = weights * BYTES_PER_WEIGHT / 2**30, usable_ram() / 2**30
        raise Incompatible(
            f"{described} and needs {needed:,.1f} GiB to learn, this process may use {there:,.1f}: lower hidden_sizes"
            " or memory_size"
        )


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer without numbers in it yet: torch's own start would draw from the global generator."""
    check_size(inputs, outputs)
    return _with_memory(nn.Linear(inputs, outputs, device="meta"))


def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Conv2d:
    """The same for images."""
    check_size(inputs, outputs, kernel, kernel)
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
