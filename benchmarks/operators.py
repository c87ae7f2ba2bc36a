"""Single operations whose cost decided something in the code: `python -m benchmarks.operators`.

`rlstudio.models.networks.tanh_on_cpu` runs a tanh network as one node, with tanh through the sigmoid, because of these
tables. `rlstudio.models.networks.ensemble` batches its networks, but not a last layer with one output, and takes the
gradient of their lowest output through one network per row. bfloat16 products are here because they are twice as fast
and still unused.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from copy import deepcopy
from statistics import median

import numpy as np
import torch
from torch import nn

from rlstudio.core.rng import Rng
from rlstudio.models.networks.ensemble import EnsembleMLP
from rlstudio.models.networks.mlp import MLP

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


def product(rows: int) -> dict[str, float]:
    """[rows, 256] times [256, 256]."""
    x, weight = torch.randn(rows, 256), torch.randn(256, 256)
    x_short, weight_short = x.bfloat16(), weight.bfloat16()
    return {
        "float32": microseconds(lambda: x @ weight),
        "bfloat16": microseconds(lambda: x_short @ weight_short),
        "and its casts": microseconds(lambda: (x.bfloat16() @ weight.bfloat16()).to(x.dtype)),
    }


def one_output(rows: int) -> dict[str, float]:
    """The last layer, 256 to 1, of two networks."""
    hidden, weight, bias = torch.randn(2, rows, 256), torch.randn(2, 256, 1), torch.randn(2, 1, 1)
    return {
        "baddbmm": microseconds(lambda: torch.baddbmm(bias, hidden, weight)),
        "multiply and sum": microseconds(lambda: (hidden * weight.transpose(1, 2)).sum(2, True) + bias),
    }


def twins(rows: int) -> dict[str, float]:
    """Forward and backward of two 4-256-256-1 relu networks, and of the lower of their outputs towards the inputs."""
    pair = EnsembleMLP(2, 4, (256, 256), 1, "relu", Rng(0))
    apart = [MLP(4, (256, 256), 1, "relu", Rng(i), gain=None) for i in range(2)]
    x, ones = torch.randn(rows, 4), torch.ones(2, rows, 1)
    inputs, frozen = torch.randn(rows, 4, requires_grad=True), deepcopy(pair).requires_grad_(False)
    parameters, separate = list(pair.parameters()), [p for net in apart for p in net.parameters()]
    return {
        "apart": microseconds(lambda: torch.autograd.grad(torch.stack([net(x) for net in apart]), separate, ones)),
        "EnsembleMLP": microseconds(lambda: torch.autograd.grad(pair(x), parameters, ones)),
        "frozen, amin": microseconds(lambda: torch.autograd.grad(frozen(inputs).amin(0).sum(), inputs)),
        "lowest": microseconds(lambda: torch.autograd.grad(pair.lowest(inputs).sum(), inputs)),
    }


def main() -> None:
    torch.set_num_threads(1)
    tables = {
        "tanh of {} x 64 floats": lambda rows: tanh(rows * 64),
        "4-64-64-2 tanh network, {} rows": network,
        "product of {} rows with 256 x 256": product,
        "256 to 1 of two networks, {} rows": one_output,
        "two 4-256-256-1 relu networks, {} rows": twins,
    }
    for rows in ROWS:
        for title, measure in tables.items():
            print(title.format(rows) + ", one thread")
            for name, value in measure(rows).items():
                print(f"  {name:18} {value:8.1f} us")


if __name__ == "__main__":
    main()
