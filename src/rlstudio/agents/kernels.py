"""Acting kernels: observations (NumPy, [B, ...]) to network outputs (NumPy, [B, O]) with the least overhead.

For a handful of environments the arithmetic of a small MLP is nothing and the calls are everything: in NumPy with
preallocated outputs a forward takes about a third of the time of torch modules. The kernel reads the layers that the
Model describes and holds views of its flat weights and of its normalizer, so it always acts with the current ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.contracts import Array, Model
from rlstudio.core.model.layers import Layers, Observations, StateNoise


def _relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=out)  # type: ignore[no-any-return]


NUMPY_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {"tanh": np.tanh, "relu": _relu}


class NumpyKernel:
    """Linear layers over a flat Box, which may come with an action mask. The returned array is reused by the next call
    with as many rows."""

    name = "numpy"

    def __init__(self, layers: Layers) -> None:
        linears = [(view(weight).T, view(bias)) for weight, bias in layers.linears]
        *self.hidden, self.last = linears
        self.activation = NUMPY_ACTIVATIONS[layers.activation]
        self.size = layers.size
        self.entry = layers.entry
        moments = layers.moments
        self.moments = None if moments is None else (view(moments.mean), view(moments.inverse_std), moments.clip)
        self._outputs: dict[int, list[np.ndarray]] = {}

    def __call__(self, observations: Array) -> np.ndarray:
        return self.outputs(self.features(observations))

    def features(self, observations: Array) -> np.ndarray:
        """Numbers, normalized where the Model does so."""
        entry = observations if self.entry is None else observations[self.entry]
        x: np.ndarray = entry.reshape(-1, self.size)  # type: ignore[union-attr]
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        if self.moments is not None:
            mean, inverse_std, clip = self.moments
            x = np.clip((x - mean) * inverse_std, -clip, clip)
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
    """Any Model, on any device."""

    name = "torch"

    def __init__(self, model: Model, noise: StateNoise | None = None) -> None:
        self._run = model.outputs
        self._parameter = next(model.parameters())  # looked up once: it knows the device, also after a move
        self._with_hidden = None if noise is None else noise.with_hidden

    @torch.inference_mode()
    def __call__(self, observations: Array) -> np.ndarray:
        outputs, _ = self._run(tensors(observations, self._parameter.device))
        return outputs.cpu().numpy()

    @torch.inference_mode()
    def with_hidden(self, observations: Array) -> tuple[np.ndarray, np.ndarray]:
        """The outputs, and what the last hidden layer gave; of a Model with state-dependent noise."""
        assert self._with_hidden is not None
        outputs, hidden = self._with_hidden(tensors(observations, self._parameter.device))
        return outputs.cpu().numpy(), hidden.cpu().numpy()


def acting_kernel(model: Model) -> NumpyKernel | TorchKernel:
    """The lightest kernel that fits."""
    layers = numpy_layers(model)
    return TorchKernel(model, model.action_rule().state_noise) if layers is None else NumpyKernel(layers)


def numpy_layers(model: Model) -> Layers | None:
    """The Model's layers where NumPy can run them."""
    layers = model.layers()
    light = layers is not None and layers.activation in NUMPY_ACTIVATIONS
    return layers if light and next(model.parameters()).device.type == "cpu" else None


@overload
def tensors(rows: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]: ...


@overload
def tensors(rows: Array, device: torch.device) -> Observations: ...


def tensors(rows: Array, device: torch.device) -> Observations:
    """A copy in torch's own memory, whose alignment, hence the bits of products, is the same in every process."""
    if isinstance(rows, dict):
        return {name: torch.tensor(array, device=device) for name, array in rows.items()}
    return torch.tensor(rows, device=device)


def view(tensor: Tensor) -> np.ndarray:
    """A parameter or buffer as NumPy sees it: the same memory."""
    return tensor.detach().numpy()
