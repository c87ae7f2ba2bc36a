"""Multi-layer perceptron: features [..., D] in, outputs [..., O] out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.model.layers import Linear
from rlstudio.core.rng import Rng
from rlstudio.models.networks.initialize import fan_in_uniform, linear, orthogonal
from rlstudio.models.networks.tanh_on_cpu import TanhOnCpu

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "elu": F.elu,
}


class MLP(nn.Module):
    """Hidden layers with one activation, then a linear output.

    `gain` is the scale of the orthogonal output layer (small for policies: near-uniform first actions); None gives
    torch's default start for all layers.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, activation: str, rng: Rng, gain: float | None = 1.0
    ) -> None:
        super().__init__()
        sizes = [inputs, *hidden, outputs]
        self.activation = activation
        self.layers = nn.ModuleList(linear(a, b) for a, b in pairwise(sizes))
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            if gain is None:
                fan_in_uniform(layer, rng.fork(i))
            else:
                orthogonal(layer, gain if i == len(hidden) else sqrt(2.0), rng.fork(i))
        # Looked up once: a Module's attribute access and call cost as much as a small product.
        self._linears = [(layer.weight, layer.bias) for layer in self.layers if isinstance(layer, nn.Linear)]
        self._between = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            outputs: Tensor = self.forward(x.reshape(-1, x.shape[-1]))
            return outputs.view(*x.shape[:-1], -1)
        if self.activation == "tanh" and x.device.type == "cpu" and x.dtype == torch.float32:
            # The same network, quicker; the two ways differ by rounding only.
            return TanhOnCpu.apply(x, *(tensor for pair in self._linears for tensor in pair))  # type: ignore[no-any-return, no-untyped-call]
        return self.output(self.hidden(x))

    def linears(self) -> tuple[Linear, ...]:
        """Its layers, from the first to the output: the parameters themselves."""
        return tuple(Linear(weight, bias) for weight, bias in self._linears)

    def hidden(self, x: Tensor) -> Tensor:
        """What the last hidden layer gives."""
        for weight, bias in self._linears[:-1]:
            x = self._between(F.linear(x, weight, bias))
        return x

    def output(self, hidden: Tensor) -> Tensor:
        """The outputs, from what the last hidden layer gave."""
        weight, bias = self._linears[-1]
        return F.linear(hidden, weight, bias)
