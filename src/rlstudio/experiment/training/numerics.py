"""The fingerprint of a machine's arithmetic: which bits the operations of training give here.

Libraries choose their code by the processor at run time: products, conv kernels and SIMD functions of the same version
round differently on an AMD and an Intel, or where an environment variable hides instructions. No name of a processor
says how, so the bits themselves are asked: a fixed set of operations on fixed numbers, and a hash of what comes out.
What training computes with is in it; a difference in an operation that is missing here goes unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.agents.kernels import NumpyKernel
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box
from rlstudio.models.networks.encoder import FlatEncoder
from rlstudio.models.networks.ensemble import EnsembleMLP
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.ops.optimizer import Optimizer

CPU = torch.device("cpu")
PROBE = "1"
"""Which operations were asked, in which order. It changes with them: fingerprints of two probes are not compared."""
DIGITS = 16
WEYL = 2654435769  # 2 ** 32 / golden ratio: successive multiples, modulo 2 ** 32, are spread evenly
ROWS, WIDTHS = (1, 3, 8, 33), (1, 3, 4, 6, 11, 16, 17, 64)
"""Products of different sizes take different code, narrow and odd ones the most kinds: all of these are combined."""
LAYERS = ((256, 64, 64), (96, 23, 256), (256, 256, 256))
"""Rows, inputs and outputs of larger products."""
MEMBERS = ((2, 128, 64, 64), (5, 32, 23, 32))
"""Networks side by side, rows, inputs and outputs."""
LENGTHS = (7, 1000, 10_007)
PARTS, POOL = 3, 1 << 16
IMAGE_LAYERS = ((4, 32, 8, 4, 36), (32, 64, 4, 2, 8), (64, 64, 3, 1, 3))
"""Channels before and after, kernel, stride, side."""


def fingerprint(device: str) -> str:
    """The probe and 16 hex digits, computed once per process, device and number of threads (as they are set now)."""
    return f"{PROBE}-{_once(device, torch.get_num_threads())}"


def probe_of(fingerprint: str) -> str:
    return fingerprint.partition("-")[0]


@cache
def _once(device: str, _threads: int) -> str:
    return measured(device)


def measured(device: str) -> str:
    """The 16 hex digits, computed now."""
    digest = sha256()
    with torch.enable_grad():
        for result in _results(device):
            digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()[:DIGITS]


def _results(device: str) -> Iterator[np.ndarray]:
    """NumPy and the start of networks are the CPU's business wherever the run trains."""
    for part in NUMPY_PARTS.values():
        yield from part()
    for place in sorted({"cpu", device}):
        for torch_part in TORCH_PARTS.values():
            for tensor in torch_part(torch.device(place)):
                yield tensor.detach().cpu().numpy()


def _numbers(*shape: int, part: int = 0, device: torch.device = CPU) -> Tensor:
    """The first of the fixed numbers of a part: a product with itself would take code of its own. A part begins on 64
    bytes: products see the same alignment, hence give the same bits, in every process."""
    return _pool(device)[part, : math.prod(shape)].view(shape)


@cache
def _pool(device: torch.device) -> Tensor:
    """Numbers within -1 and 1 that fill the mantissa of a float32, made by whole-number arithmetic alone."""
    steps = (torch.arange(1, PARTS * POOL + 1) * WEYL % 2**32) >> 8
    return ((steps - 2**23).float() / 2**23).view(PARTS, POOL).to(device)


# -- on the CPU, by NumPy and the C library ---------------------------------------------------------------------------


def _in_numpy() -> Iterator[np.ndarray]:
    for rows, inputs, outputs in product(ROWS, WIDTHS, WIDTHS):
        yield np.matmul(_numbers(rows, inputs).numpy(), _numbers(outputs, inputs, part=1).numpy().T)
    yield from np.linalg.qr(_numbers(64, 16).double().numpy())  # how networks start
    for length in LENGTHS:
        for numbers in (_numbers(length).numpy(), _numbers(length).double().numpy()):
            yield from (
                np.tanh(numbers),
                np.exp(numbers),
                np.log(np.abs(numbers) + 1),
                np.sin(numbers),
                np.cos(numbers),
            )
            yield from (np.asarray(numbers.sum()), np.asarray(numbers.std()), np.cumsum(numbers))
    few = _numbers(64).double().tolist()
    yield np.array([f(3 * x) for f in (math.sin, math.cos, math.exp, math.tanh) for x in few])


def _acting() -> Iterator[np.ndarray]:
    """The kernel that acts with small networks."""
    encoder = FlatEncoder(Box((4,), "float32", (-math.inf,), (math.inf,)), normalize=True)
    layers = layers_of(encoder, _network())
    assert layers is not None
    act = NumpyKernel(layers)
    for rows in (1, 2, 8, 16):
        yield act(_numbers(rows, 4).numpy()).copy()


def _network() -> MLP:
    """A small one whose weights are fixed numbers."""
    network = MLP(4, (64, 64), 2, "tanh", Rng(0), gain=None)
    _fill(network)
    return network


@torch.no_grad()
def _fill(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.copy_(_numbers(*parameter.shape) / 8)


# -- by torch, on any device ------------------------------------------------------------------------------------------


def _products(device: torch.device) -> Iterator[Tensor]:
    """The products of a layer forward and backward; then of several networks at once."""
    for rows, inputs, outputs in (*product(ROWS, WIDTHS, WIDTHS), *LAYERS):
        x, weight = _numbers(rows, inputs, device=device), _numbers(outputs, inputs, part=1, device=device)
        grad = _numbers(rows, outputs, part=2, device=device)
        yield from (torch.addmm(grad[0], x, weight.t()), grad.t().mm(x), grad.mm(weight))
    for members, rows, inputs, outputs in (*product((2,), ROWS[2:], WIDTHS[2::2], WIDTHS[2::2]), *MEMBERS):
        x = _numbers(members, rows, inputs, device=device)
        weight = _numbers(members, inputs, outputs, part=1, device=device)
        out = torch.baddbmm(weight[:, :1], x, weight)
        yield from (out, torch.bmm(x.transpose(1, 2), out), torch.bmm(out, weight.transpose(1, 2)))


def _functions(device: torch.device) -> Iterator[Tensor]:
    """One by one, and sums of several lengths and both precisions."""
    for length in LENGTHS:
        x = 4 * _numbers(length, device=device)
        yield from (
            x.exp(),
            x.tanh(),
            x.sigmoid(),
            x.sin(),
            x.cos(),
            F.softplus(x),
            (x.abs() + 1).log(),
            x.abs().sqrt(),
        )
        yield from (F.silu(x), F.gelu(x), F.elu(x), (x / 4.01).erfinv(), (x / 4.01).atanh())
        yield from (x.sum(), x.double().sum(), x.square().mean(), torch.linalg.vector_norm(x), *torch.std_mean(x))
    x = 4 * _numbers(256, 64, device=device)
    yield from (x.sum(0), x.sum(1), x.logsumexp(1), F.log_softmax(x[:, :5], -1), (x / 4).cumprod(1))
    yield torch.fft.irfft(torch.fft.rfft(x[:4]))


def _convolutions(device: torch.device) -> Iterator[Tensor]:
    """The three layers for images. The way back is asked on the CPU only: on a GPU it need not repeat itself."""
    for before, after, kernel, stride, side in IMAGE_LAYERS:
        x = _numbers(2, before, side, side, device=device)
        weight = _numbers(after, before, kernel, kernel, part=1, device=device).requires_grad_(device.type == "cpu")
        out = F.conv2d(x, weight, stride=stride)
        yield out
        if device.type == "cpu":
            yield from torch.autograd.grad(out.square().sum(), weight)


def _updates(device: torch.device) -> Iterator[Tensor]:
    """Two steps of the Optimizer, with clipping, on a policy's and on twin critics' network."""
    critics = EnsembleMLP(2, 4, (64, 64), 1, "relu", Rng(0))
    _fill(critics)
    for model in (_network().to(device), critics.to(device)):
        optimizer = Optimizer(model, lr=1e-3, max_grad_norm=0.5)
        x = _numbers(32, 4, device=device)
        for _ in range(2):
            yield optimizer.step((model(x) - 1).square().mean())
        yield optimizer.flat.data


NUMPY_PARTS: dict[str, Callable[[], Iterator[np.ndarray]]] = {"functions": _in_numpy, "acting": _acting}
TORCH_PARTS: dict[str, Callable[[torch.device], Iterator[Tensor]]] = {
    "products": _products,
    "elementwise": _functions,
    "convolutions": _convolutions,
    "updates": _updates,
}
"""What is asked, in this order. It is part of the fingerprint: another order is another PROBE."""
