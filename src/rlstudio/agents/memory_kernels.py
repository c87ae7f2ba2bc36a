"""Acting kernels of recurrent policies: observations and carry (NumPy) to network outputs and the carry after them.

As for feed-forward policies the calls are everything: for eight environments a step in NumPy takes a quarter of the
time. Both memories take it, that of the values too, since learning starts from what is stored here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from rlstudio.agents.kernels import NumpyKernel, numpy_layers, tensors, view
from rlstudio.core.contracts import Array, Carried, Model
from rlstudio.core.model.layers import Layers


class TorchMemoryKernel:
    """Any Model, on any device."""

    name = "torch"

    def __init__(self, model: Model) -> None:
        self._run = model.outputs
        self._parameter = next(model.parameters())

    @torch.inference_mode()
    def __call__(self, observations: Array, carry: Carried | None) -> tuple[np.ndarray, Carried]:
        device = self._parameter.device
        before = None if carry is None else tensors(carry, device)
        outputs, after = self._run(tensors(observations, device), before)
        return outputs.cpu().numpy(), {part: held.contiguous().cpu().numpy() for part, held in after.items()}


class NumpyMemoryKernel:
    """A flat Box, with or without an action mask. Dims: B rows, K memories, G gates, H units."""

    name = "numpy"

    def __init__(self, layers: Layers) -> None:
        memory = layers.memory
        assert memory is not None
        self._net = NumpyKernel(layers)
        self._parts = memory.parts
        self._count, self._size = memory.memories, memory.size
        self._advance = ADVANCE[memory.kind]
        self._weight_x, self._bias_x = view(memory.inputs.weight).T, view(memory.inputs.bias)
        shape = (memory.memories, -1, memory.size)
        self._weight_h = view(memory.recurrent.weight).reshape(shape).swapaxes(1, 2)  # a view of what is learned
        self._bias_h = view(memory.recurrent.bias).reshape(memory.memories, 1, -1)

    def __call__(self, observations: Array, carry: Carried | None) -> tuple[np.ndarray, Carried]:
        features = self._net.features(observations)
        rows = len(features)
        # Memory from torch is 64-byte aligned, also after a resume: the same alignment gives the same bits.
        before = torch.zeros(len(self._parts), self._count, rows, self._size).numpy()
        if carry is not None:
            for held, part in zip(before, self._parts, strict=True):
                held[:] = carry[part].swapaxes(0, 1)
        x = (features @ self._weight_x + self._bias_x).reshape(rows, self._count, -1).swapaxes(0, 1)
        after = self._advance(x, before[0] @ self._weight_h + self._bias_h, before)
        outputs = self._net.outputs(after[0][0])
        return outputs, {part: held.swapaxes(0, 1).copy() for part, held in zip(self._parts, after, strict=True)}


def memory_kernel(model: Model) -> NumpyMemoryKernel | TorchMemoryKernel:
    """The lightest kernel that fits."""
    layers = numpy_layers(model)
    if layers is None or layers.memory is None or layers.memory.kind not in ADVANCE:
        return TorchMemoryKernel(model)
    return NumpyMemoryKernel(layers)


def _advance_gru(x: np.ndarray, u: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gates r, z, n of inputs `x` and of the own past `u`, [K, B, 3H]; see `models/networks/memory.py`."""
    (h,) = before
    size = h.shape[-1]
    gates = _sigmoid(x[..., : 2 * size] + u[..., : 2 * size])
    n = np.tanh(x[..., 2 * size :] + gates[..., :size] * u[..., 2 * size :])
    return (n + gates[..., size:] * (h - n),)


def _advance_lstm(x: np.ndarray, u: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gates o, i, f, g, [K, B, 4H]."""
    _, c = before
    size, summed = c.shape[-1], x + u
    gates = _sigmoid(summed[..., : 3 * size])
    o, i, f = (gates[..., k * size : (k + 1) * size] for k in range(3))
    cell = f * c + i * np.tanh(summed[..., 3 * size :])
    return o * np.tanh(cell), cell


ADVANCE: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]] = {
    "gru": _advance_gru,
    "lstm": _advance_lstm,
}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """By the tanh, which never overflows."""
    return 0.5 * np.tanh(0.5 * x) + 0.5
