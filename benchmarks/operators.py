"""Single operations whose cost decided something in the code: `python -m benchmarks.operators`.

`rlstudio.models.mlp` runs a tanh network as one node, with tanh through the sigmoid, because of these tables.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import nn

from rlstudio.core.rng import Rng
from rlstudio.models.mlp import MLP

ROWS = (256, 1024)
"""Rows of a minibatch."""


def microseconds(call: Callable[[], object], repeats: int = 7, seconds: float = 0.1) -> float:
    """Median time of one call over `repeats` timings of about `seconds` each."""
    timer = timeit.Timer(call)
    once = max(timer.timeit(10) / 10, 1e-7)
    number = max(1, round(seconds / once))
    return 1e6 * median(timer.repeat(repeats, number)) / number


def tanh(size: int) -> dict[str, float]:
    """tanh of `size` floats, without gradients."""
    x = torch.randn(size)
    array, out = x.numpy(), np.empty(size, np.float32)
    return {
        "torch.tanh": microseconds(lambda: torch.tanh(x)),
        "2 sigmoid(2x) - 1": microseconds(lambda: torch.sigmoid(x + x).mul_(2.0).sub_(1.0)),
        "numpy.tanh": microseconds(lambda: np.tanh(array, out=out)),
        "torch.relu": microseconds(lambda: torch.relu(x)),
    }


def network(rows: int) -> dict[str, float]:
    """Forward and backward of a 4-64-64-2 tanh network."""
    fused = MLP(4, (64, 64), 2, "tanh", Rng(0))
    plain = nn.Sequential(*[module for layer in fused.layers for module in (layer, nn.Tanh())][:-1])
    x, ones = torch.randn(rows, 4), torch.ones(rows, 2)
    parameters = list(fused.parameters())
    return {
        "torch modules": microseconds(lambda: torch.autograd.grad(plain(x), parameters, ones)),
        "rlstudio MLP": microseconds(lambda: torch.autograd.grad(fused(x), parameters, ones)),
    }


def main() -> None:
    torch.set_num_threads(1)
    for rows in ROWS:
        for what, found in ((f"tanh of {rows * 64:,} floats", tanh(rows * 64)), (f"{rows} rows", network(rows))):
            print(f"{what}, one thread")
            for name, value in found.items():
                print(f"  {name:18} {value:8.1f} us")


if __name__ == "__main__":
    main()
