"""Acting kernels: observations (NumPy, [B, ...]) to network outputs (NumPy, [B, O]) with the least overhead.

For a handful of environments the arithmetic of a small MLP is nothing and the calls are everything: in NumPy with
preallocated outputs a forward takes about a third of the time of torch modules. The kernel holds views of the Model's
flat weights and of its normalizer, so it always acts with the current ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Box, Dict, Space
from rlstudio.models.networks.encoder import Encoder, FlatEncoder
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.networks.normalizer import CLIP


def _relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=out)  # type: ignore[no-any-return]


NUMPY_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {"tanh": np.tanh, "relu": _relu}


class NumpyKernel:
    """An MLP over a flat Box, which may come with an action mask. The returned array is reused by the next call with as
    many rows."""

    name = "numpy"

    def __init__(self, encoder: FlatEncoder, net: MLP) -> None:
        linears = [(view(layer.weight).T, view(layer.bias)) for layer in net.layers]  # type: ignore[arg-type]
        *self.hidden, self.last = linears
        self.activation = NUMPY_ACTIVATIONS[net.activation]
        self.size = encoder.size
        self.entry = encoder.entry
        normalizer = encoder.normalizer
        self.moments = None if normalizer is None else (view(normalizer.mean), view(normalizer.inverse_std))
        self._outputs: dict[int, list[np.ndarray]] = {}

    def __call__(self, observations: Array) -> np.ndarray:
        return self.outputs(self.features(observations))

    def features(self, observations: Array) -> np.ndarray:
        """What the encoder makes of them."""
        entry = observations if self.entry is None else observations[self.entry]
        x: np.ndarray = entry.reshape(-1, self.size)  # type: ignore[union-attr]
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        if self.moments is not None:
            mean, inverse_std = self.moments
            x = np.clip((x - mean) * inverse_std, -CLIP, CLIP)
        return x

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """What the network makes of features."""
        rows = len(x)
        outputs = self._outputs.get(rows)
        if outputs is None:
            # Memory from torch is 64-byte aligned: products see the same alignment, hence give the same bits, always.
            widths = [weight.shape[1] for weight, _ in (*self.hidden, self.last)]
            outputs = self._outputs[rows] = [torch.empty(rows, width).numpy() for width in widths]
        for (weight, bias), out in zip(self.hidden, outputs, strict=False):
            x = np.matmul(x, weight, out=out)
            x += bias
            self.activation(x, out=x)
        weight, bias = self.last
        x = np.matmul(x, weight, out=outputs[-1])
        x += bias
        return x

    def with_hidden(self, observations: Array) -> tuple[np.ndarray, np.ndarray]:
        """The outputs, and what the last hidden layer gave."""
        outputs = self(observations)
        return outputs, self._outputs[len(outputs)][-2]


class TorchKernel:
    """Any encoder and network, on any device."""

    name = "torch"

    def __init__(self, encoder: Encoder, net: nn.Module) -> None:
        self.encoder = encoder
        self.net = net

    @torch.inference_mode()
    def __call__(self, observations: Array) -> np.ndarray:
        inputs = tensors(observations, next(self.net.parameters()).device)
        return self.net(self.encoder(inputs)).cpu().numpy()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def with_hidden(self, observations: Array) -> tuple[np.ndarray, np.ndarray]:
        """The outputs of an MLP, and what its last hidden layer gave."""
        assert isinstance(self.net, MLP)
        inputs = tensors(observations, next(self.net.parameters()).device)
        hidden = self.net.hidden(self.encoder(inputs))
        return self.net.output(hidden).cpu().numpy(), hidden.cpu().numpy()


def acting_kernel(encoder: Encoder, net: nn.Module) -> NumpyKernel | TorchKernel:
    """The lightest kernel that fits."""
    light = (
        isinstance(encoder, FlatEncoder)
        and isinstance(space := _only(encoder.space), Box)
        and space.dtype != "uint8"  # bytes are scaled by the encoder
        and isinstance(net, MLP)
        and net.activation in NUMPY_ACTIVATIONS
        and next(net.parameters()).device.type == "cpu"
    )
    if light:
        assert isinstance(encoder, FlatEncoder)
        assert isinstance(net, MLP)
        return NumpyKernel(encoder, net)
    return TorchKernel(encoder, net)


def _only(space: Space) -> Space:
    """The one entry of a Dict that has no other, or the space itself."""
    return space.items()[0][1] if isinstance(space, Dict) and len(space.items()) == 1 else space


def tensors(rows: Array, device: torch.device) -> Any:
    """A copy in torch's own memory, whose alignment, hence the bits of products, is the same in every process."""
    if isinstance(rows, dict):
        return {name: torch.tensor(array, device=device) for name, array in rows.items()}
    return torch.tensor(rows, device=device)


def view(tensor: Tensor) -> np.ndarray:
    """A parameter or buffer as NumPy sees it: the same memory."""
    return tensor.detach().numpy()
