"""Multi-layer perceptron: features [N, D] in, outputs [N, O] out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.rng import Rng
from rlstudio.models.activations import ACTIVATIONS
from rlstudio.models.initialize import fan_in_uniform, orthogonal


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
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.between = ACTIVATIONS[activation]()
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            if gain is None:
                fan_in_uniform(layer, rng.fork(i))
            else:
                orthogonal(layer, gain if i == len(hidden) else sqrt(2.0), rng.fork(i))

        # Looked up once: a Module's attribute access and call cost as much as a small product.
        self._linears = [(layer.weight, layer.bias) for layer in self.layers if isinstance(layer, nn.Linear)]

    def forward(self, x: Tensor) -> Tensor:
        *hidden, (weight, bias) = self._linears
        for hidden_weight, hidden_bias in hidden:
            x = self.between(F.linear(x, hidden_weight, hidden_bias))
        return F.linear(x, weight, bias)
