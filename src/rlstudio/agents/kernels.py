"""Acting kernels: observations (NumPy, [B, ...]) to network outputs (NumPy, [B, O]) with the least overhead.

For a handful of environments the arithmetic of a small MLP is nothing and the calls are everything: in NumPy with
preallocated outputs a forward takes about a third of the time of torch modules. The kernel holds views of the Model's
flat weights and of its normalizer, so it never has to be told that they changed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Box
from rlstudio.models.encoder import Encoder, FlatEncoder
from rlstudio.models.mlp import MLP
from rlstudio.models.normalizer import CLIP

Kernel = Callable[[Array], np.ndarray]


def _relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=out)  # type: ignore[no-any-return]


NUMPY_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {"tanh": np.tanh, "relu": _relu}


class NumpyKernel:
    """An MLP over a flat Box. The returned array is reused by the next call with as many rows."""

    name = "numpy"

    def __init__(self, encoder: FlatEncoder, net: MLP) -> None:
        linears = [(_view(layer.weight).T, _view(layer.bias)) for layer in net.layers]  # type: ignore[arg-type]
        *self.hidden, self.last = linears
        self.activation = NUMPY_ACTIVATIONS[net.activation]
        self.size = encoder.size
        normalizer = encoder.normalizer
        self.moments = None if normalizer is None else (_view(normalizer.mean), _view(normalizer.inverse_std))
        self._outputs: dict[int, list[np.ndarray]] = {}

    def __call__(self, observations: Array) -> np.ndarray:
        x = observations.reshape(-1, self.size)  # type: ignore[union-attr]
        rows = len(x)
        outputs = self._outputs.get(rows)
        if outputs is None:
            # Memory from torch is 64-byte aligned: products see the same alignment, hence give the same bits, always.
            widths = [weight.shape[1] for weight, _ in (*self.hidden, self.last)]
            outputs = self._outputs[rows] = [torch.empty(rows, width).numpy() for width in widths]
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        if self.moments is not None:
            mean, inverse_std = self.moments
            x = np.clip((x - mean) * inverse_std, -CLIP, CLIP)
        for (weight, bias), out in zip(self.hidden, outputs, strict=False):
            x = np.matmul(x, weight, out=out)
            x += bias
            self.activation(x, out=x)
        weight, bias = self.last
        x = np.matmul(x, weight, out=outputs[-1])
        x += bias
        return x


class TorchKernel:
    """Any encoder and network, on any device."""

    name = "torch"

    def __init__(self, encoder: Encoder, net: nn.Module) -> None:
        self.encoder = encoder
        self.net = net

    @torch.inference_mode()
    def __call__(self, observations: Array) -> np.ndarray:
        device = next(self.net.parameters()).device
        if isinstance(observations, dict):
            inputs: Tensor | dict[str, Tensor] = {k: torch.as_tensor(v, device=device) for k, v in observations.items()}
        else:
            inputs = torch.as_tensor(observations, device=device)
        return self.net(self.encoder(inputs)).cpu().numpy()  # type: ignore[no-any-return]


def acting_kernel(encoder: Encoder, net: nn.Module) -> NumpyKernel | TorchKernel:
    """The lightest kernel that fits."""
    light = (
        isinstance(encoder, FlatEncoder)
        and isinstance(encoder.space, Box)
        and encoder.space.dtype != "uint8"  # bytes are scaled by the encoder
        and isinstance(net, MLP)
        and net.activation in NUMPY_ACTIVATIONS
        and next(net.parameters()).device.type == "cpu"
    )
    if light:
        assert isinstance(encoder, FlatEncoder)
        assert isinstance(net, MLP)
        return NumpyKernel(encoder, net)
    return TorchKernel(encoder, net)


def _view(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()
