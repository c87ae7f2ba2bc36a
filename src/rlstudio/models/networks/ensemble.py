"""Several networks of one shape as one: every layer of all of them is a single batched product.

On two threads each network has a core to itself, on one thread the calls are shared; on a GPU the kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import torch
from torch import Tensor, nn

from rlstudio.core.rng import Rng
from rlstudio.models.networks.initialize import check_size
from rlstudio.models.networks.mlp import ACTIVATIONS
from rlstudio.ops.autograd import GradientContext

Layers = list[tuple[Tensor, Tensor]]
"""A weight [K, inputs, outputs] and a bias [K, 1, outputs] per layer."""


class EnsembleMLP(nn.Module):
    """K multi-layer perceptrons: features [N, D], seen by all of them, in; outputs [K, N, O] out. With `each`, every
    network has features of its own.

    Weights are [K, inputs, outputs] and start like those of an `MLP` with `gain=None`: uniform within 1 / sqrt(inputs),
    each network on its own.
    """

    def __init__(
        self, members: int, inputs: int, hidden: Sequence[int], outputs: int, activation: str, rng: Rng
    ) -> None:
        super().__init__()
        self.members = members
        self.activation = activation
        shapes = list(pairwise([inputs, *hidden, outputs]))
        for before, after in shapes:
            check_size(members, before, after)
        self.weights = nn.ParameterList(torch.empty(members, before, after) for before, after in shapes)
        self.biases = nn.ParameterList(torch.empty(members, 1, after) for _, after in shapes)
        self._start(rng)
        # Looked up once: a Module's attribute access costs as much as a small product.
        self._layers = list(zip(self.weights, self.biases, strict=True))
        self._between = ACTIVATIONS[activation]

    @torch.no_grad()
    def _start(self, rng: Rng) -> None:
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            bound = 1.0 / sqrt(weight.shape[1])
            for member in range(self.members):
                generator = rng.fork(member).fork(i).generator()
                for tensor in (weight[member], bias[member]):
                    tensor.copy_(torch.from_numpy(generator.uniform(-bound, bound, tuple(tensor.shape))))

    def forward(self, x: Tensor) -> Tensor:
        return self._run(x, self._layers)

    def each(self, x: Tensor) -> Tensor:
        """Features [K, N, D], for each member its own -> outputs [K, N, O]."""
        return self._through(x, self._layers)

    def first(self, x: Tensor) -> Tensor:
        """The outputs of the first member alone: [N, O]; gradients reach `x` but no weight."""
        return self._run(x, self._detached(1)).squeeze(0)

    def lowest(self, x: Tensor) -> Tensor:
        """The lowest output of all members, row by row: [N]; for networks with a single output. Gradients reach `x` but
        no weight."""
        if self.activation == "relu" and x.device.type == "cpu":
            return _LowestOnCpu.apply(x, *(tensor for pair in self._layers for tensor in pair))  # type: ignore[no-any-return, no-untyped-call]
        return self._run(x, self._detached(self.members)).squeeze(-1).amin(0)

    def _detached(self, members: int) -> Layers:
        return [(weight.detach()[:members], bias.detach()[:members]) for weight, bias in self._layers]

    def _run(self, x: Tensor, layers: Layers) -> Tensor:
        return self._through(x.expand(len(layers[0][0]), *x.shape), layers)

    def _through(self, x: Tensor, layers: Layers) -> Tensor:
        for weight, bias in layers[:-1]:
            x = self._between(torch.baddbmm(bias, x, weight))
        return _outputs(x, *layers[-1])


def _outputs(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if weight.shape[2] > 1:
        return torch.baddbmm(bias, hidden, weight)
    # A batched product with one column takes 7 to 10 times as long, there and back (`benchmarks.operators`).
    return (hidden * weight.transpose(1, 2)).sum(2, True) + bias


class _LowestOnCpu(torch.autograd.Function):
    """The smallest output per row, whose gradient passes only through the network that gave it.

    So the way back takes each row through one network instead of all: half the products where there are two.
    """

    @staticmethod
    def forward(ctx: GradientContext, x: Tensor, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[::2], parameters[1::2]
        inputs = [x.expand(len(weights[0]), *x.shape)]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            inputs.append(torch.baddbmm(bias, inputs[-1], weight).relu_())
        lowest, which = _outputs(inputs[-1], weights[-1], biases[-1]).squeeze(-1).min(0)
        ctx.save_for_backward(which, *inputs, *weights)
        return lowest

    @staticmethod
    def backward(ctx: GradientContext, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_N,) = grads
        which_N, *saved = ctx.saved_tensors
        layers = len(saved) // 2
        inputs, weights = saved[:layers], saved[layers:]
        towards = torch.empty(inputs[0].shape[1:])
        for member in range(len(weights[0])):
            rows = (which_N == member).nonzero().squeeze(1)
            grad = torch.outer(grad_N[rows], weights[-1][member].squeeze(-1))
            for i in range(layers - 1, 0, -1):
                active = inputs[i][member].index_select(0, rows)
                grad = torch.ops.aten.threshold_backward(grad, active, 0.0).mm(weights[i - 1][member].t())
            towards.index_copy_(0, rows, grad)
        return towards, *[None] * (2 * layers)
