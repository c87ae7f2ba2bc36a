"""Functions of torch that depend on the processor whatever the environment says, computed by NumPy instead.

Torch calls MKL's vector functions for these, and they begin with the processor's own approximation of 1 / x or
1 / sqrt(x), which an AMD and an Intel round differently. Found by comparing an AMD with processors that QEMU emulates,
60,000 numbers in both precisions: these differ, the other functions of that library do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

FUNCTIONS: dict[str, np.ufunc] = {
    "sqrt": np.sqrt,
    "log": np.log,
    "tan": np.tan,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
}
KNOWN_TO_NUMPY = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@cache
def install() -> torch.library.Library:
    """From now on, for the whole process. Autograd stays as it is: it lies above what is replaced."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced
        for name, function in FUNCTIONS.items():
            functional, out, in_place = _kernels(function)
            for variant, kernel in ((name, functional), (f"{name}.out", out), (f"{name}_", in_place)):
                library.impl(variant, kernel, "CPU")  # type: ignore[no-untyped-call]
    return library  # kept by the cache: the kernels go when it does


def _kernels(function: np.ufunc) -> tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor]]:
    def functional(x: Tensor) -> Tensor:
        given = x.detach() if x.dtype in KNOWN_TO_NUMPY else x.detach().float()
        with np.errstate(all="ignore"):  # of a negative number it is NaN, as in torch
            result = torch.from_numpy(np.asarray(function(given.numpy())))
        return result.to(x.dtype) if x.is_floating_point() else result

    def to_output(x: Tensor, *, out: Tensor) -> Tensor:
        return out.resize_(x.shape).copy_(functional(x))

    def in_place(x: Tensor) -> Tensor:
        return x.copy_(functional(x))

    return functional, to_output, in_place
