"""Single operations whose cost decided something in the code: `python -m benchmarks.operators`.

`rlstudio.models.activations` computes tanh through the sigmoid because of the first table.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from rlstudio.models.activations import Tanh

SIZES = (256 * 64, 1024 * 64)
"""Hidden activations of one minibatch: 256 and 1024 rows of 64."""


def microseconds(call: Callable[[], object], repeats: int = 7, seconds: float = 0.1) -> float:
    """Median time of one call over `repeats` timings of about `seconds` each."""
    timer = timeit.Timer(call)
    once = max(timer.timeit(10) / 10, 1e-7)
    number = max(1, round(seconds / once))
    return 1e6 * median(timer.repeat(repeats, number)) / number


def forward(size: int) -> dict[str, float]:
    """tanh of `size` floats, without gradients."""
    x = torch.randn(size)
    array, out, fast = x.numpy(), np.empty(size, np.float32), Tanh()
    with torch.no_grad():
        return {
            "torch.tanh": microseconds(lambda: torch.tanh(x)),
            "rlstudio Tanh": microseconds(lambda: fast(x)),
            "numpy.tanh": microseconds(lambda: np.tanh(array, out=out)),
            "torch.relu": microseconds(lambda: torch.relu(x)),
        }


def backward(size: int) -> dict[str, float]:
    """The same with its gradient, as a loss needs it."""
    x = torch.randn(size, requires_grad=True)
    ones, fast = torch.ones(size), Tanh()
    return {
        "torch.tanh": microseconds(lambda: torch.autograd.grad(torch.tanh(x), x, ones)),
        "rlstudio Tanh": microseconds(lambda: torch.autograd.grad(fast(x), x, ones)),
    }


def main() -> None:
    torch.set_num_threads(1)
    for size in SIZES:
        for what, found in (("forward", forward(size)), ("forward and backward", backward(size))):
            print(f"{size:,} floats, {what}, one thread")
            for name, value in found.items():
                print(f"  {name:15} {value:8.1f} us")


if __name__ == "__main__":
    main()
