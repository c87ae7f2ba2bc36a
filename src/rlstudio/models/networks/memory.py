"""Memories: GRU (Cho et al. 2014) and LSTM (Hochreiter & Schmidhuber 1997), unrolled over sequences with resets.

    GRU    r, z = sigmoid(x W + h U)        n = tanh(x W + r (h U))     h' = n + z (h - n)
    LSTM   o, i, f = sigmoid(x W + h U)     g = tanh(x W + h U)         c' = f c + i g      h' = o tanh(c')

Dims: L steps, b environments, K memories side by side (each with weights of its own), D inputs, H units. Where `resets`
is true an episode starts: the step sees a carry of zeros, and no gradient passes. Torch's own layers know no resets.
Here all inputs are projected at once, a step is one batched product with [K, b, H] and a few operations in place, and
the unroll is one autograd node whose weight gradients are one product at the end: on a CPU several times as fast as
nn.GRU for the few environments of a rollout, equal for hundreds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.model.layers import Carry, Linear, MemoryLayers
from rlstudio.core.rng import Rng
from rlstudio.models.config import MEMORY_PARTS, MemoryKind
from rlstudio.models.networks.initialize import linear, orthogonal
from rlstudio.ops.autograd import GradientContext


class Memory(nn.Module):
    """What both kinds share: a layer from the inputs and one from the own past, both into all gates."""

    kind: MemoryKind
    gates: int
    parts: tuple[str, ...]  # what is carried; the first is also the output

    def __init__(self, inputs: int, size: int, count: int, rng: Rng) -> None:
        """`count` memories of `size` units that see the same inputs."""
        super().__init__()
        self.size = size
        self.count = count
        self.inputs = _blocks(inputs, size, count * self.gates, rng.fork("inputs"))
        self.recurrent = _blocks(size, size, count * self.gates, rng.fork("recurrent"))

    def described(self) -> MemoryLayers:
        """Its layers: the parameters themselves."""
        inputs, recurrent = (Linear(layer.weight, layer.bias) for layer in (self.inputs, self.recurrent))
        return MemoryLayers(self.kind, self.parts, self.count, self.size, inputs, recurrent)

    def empty(self, rows: int) -> Carry:
        """The carry at the start of episodes."""
        weight = self.recurrent.weight
        return {part: weight.new_zeros(rows, self.count, self.size) for part in self.parts}

    def forward(self, x: Tensor, carry: Carry, resets: Tensor) -> tuple[Tensor, Carry]:
        """x [L, b, D], carry [b, K, H] before the first step, resets [L, b] -> hidden [L, b, K, H], carry after all."""
        keep = torch.logical_not(resets).to(x.dtype)[:, None, :, None]
        projected = self.inputs(x).view(*x.shape[:2], self.count, -1).transpose(1, 2)
        weight = self.recurrent.weight.view(self.count, -1, self.size)
        bias = self.recurrent.bias.view(self.count, -1)
        before = [carry[part].transpose(0, 1) for part in self.parts]
        hidden, after = self._unroll(projected, keep, weight, bias, *before)
        return hidden.transpose(1, 2), {
            part: rows.transpose(0, 1) for part, rows in zip(self.parts, after, strict=True)
        }

    def _unroll(
        self, x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, *carry: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        raise NotImplementedError  # abstract: each kind has its own gates


class GRU(Memory):
    kind: MemoryKind = "gru"
    gates = 3
    parts = MEMORY_PARTS["gru"]

    def _unroll(
        self, x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, *carry: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden = _UnrolledGRU.apply(x, keep, weight, bias, *carry)  # type: ignore[no-untyped-call]
        return hidden, (hidden[-1],)


class LSTM(Memory):
    kind: MemoryKind = "lstm"
    gates = 4
    parts = MEMORY_PARTS["lstm"]

    def __init__(self, inputs: int, size: int, count: int, rng: Rng) -> None:
        super().__init__(inputs, size, count, rng)
        with torch.no_grad():  # at first it keeps what it has (Gers et al. 2000)
            self.inputs.bias.view(count, 4, size)[:, 2] = 1.0

    def _unroll(
        self, x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, *carry: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden, cell = _UnrolledLSTM.apply(x, keep, weight, bias, *carry)  # type: ignore[no-untyped-call]
        return hidden, (hidden[-1], cell)


MEMORIES: dict[str, type[Memory]] = {"gru": GRU, "lstm": LSTM}


class _UnrolledGRU(torch.autograd.Function):
    """Gates in the order r, z, n. The carry is data: it gets no gradient."""

    @staticmethod
    def forward(ctx: GradientContext, x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, h: Tensor) -> Tensor:
        size, lead = h.shape[-1], x.shape[:-1]
        past, new, hidden = (x.new_empty(*lead, size) for _ in range(3))
        gates, products = x.new_empty(*lead, 2 * size), x.new_empty(*lead, 3 * size)
        columns = (
            past, keep, products, products[..., : 2 * size], products[..., 2 * size :], gates, gates[..., :size],
            gates[..., size:], x[..., : 2 * size], x[..., 2 * size :], new, hidden,
        )  # fmt: skip
        transposed, bias = weight.transpose(1, 2), bias.unsqueeze(1)
        for h_in, kept, hu, hu_rz, hu_n, rz, r, z, x_rz, x_n, n, out in zip(*_by_step(columns), strict=True):
            torch.mul(h, kept, out=h_in)
            torch.baddbmm(bias, h_in, transposed, out=hu)
            torch.add(x_rz, hu_rz, out=rz).sigmoid_()
            torch.addcmul(x_n, r, hu_n, out=n).tanh_()
            h = torch.lerp(n, h_in, z, out=out)
        ctx.save_for_backward(past, keep, products[..., 2 * size :], gates, new, weight)
        return hidden

    @staticmethod
    def backward(ctx: GradientContext, *grads: Tensor) -> tuple[Tensor | None, ...]:
        past, keep, product_n, gates, n, weight = ctx.saved_tensors
        size = weight.shape[-1]
        r, z = gates[..., :size], gates[..., size:]
        # Each gate's gradient is the gradient of h times a factor that is known for all steps at once.
        by_n = (1 - z) * (1 - n * n)
        factors = torch.stack((by_n * product_n * r * (1 - r), (past - n) * z * (1 - z), by_n * r), -2)
        towards_hu, grad_h, fade = torch.empty_like(factors), grads[0].clone(), z * keep
        columns = grad_h, grad_h.unsqueeze(-2), factors, towards_hu, towards_hu.flatten(-2), fade, keep
        later = zip(*(reversed(rows) for rows in _by_step(columns)), strict=True)
        before = [*reversed(grad_h.unbind(0)[:-1]), None]
        for (dh, dh_all, factor, dgates, flat, faded, kept), dh_before in zip(later, before, strict=True):
            torch.mul(factor, dh_all, out=dgates)
            if dh_before is not None:
                dh_before.addcmul_(dh, faded).addcmul_(flat.bmm(weight), kept)
        towards_x = towards_hu.clone()
        torch.mul(grad_h, by_n, out=towards_x[..., 2, :])
        return towards_x.flatten(-2), None, *_towards_weights(towards_hu.flatten(-2), past), None


class _UnrolledLSTM(torch.autograd.Function):
    """Gates in the order o, i, f, g. The carry is data: it gets no gradient."""

    @staticmethod
    def forward(
        ctx: GradientContext, x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        size, transposed = h.shape[-1], weight.transpose(1, 2)
        past, past_cell, cells, squashed, hidden = (x.new_empty(*x.shape[:-1], size) for _ in range(5))
        gates = x.contiguous() + bias.unsqueeze(1)
        columns = (
            past, past_cell, keep, gates, gates[..., : 3 * size],
            *torch.split(gates, size, -1), cells, squashed, hidden,
        )  # fmt: skip
        for h_in, c_in, kept, all_gates, oif, o, i, f, g, cell, tanh_c, out in zip(*_by_step(columns), strict=True):
            torch.mul(h, kept, out=h_in)
            torch.mul(c, kept, out=c_in)
            all_gates.baddbmm_(h_in, transposed)
            oif.sigmoid_()
            g.tanh_()
            c = torch.mul(f, c_in, out=cell).addcmul_(i, g)
            torch.tanh(c, out=tanh_c)
            h = torch.mul(o, tanh_c, out=out)
        ctx.save_for_backward(past, past_cell, keep, gates, squashed, weight)
        last = c.clone()
        ctx.mark_non_differentiable(last)
        return hidden, last

    @staticmethod
    def backward(ctx: GradientContext, *grads: Tensor) -> tuple[Tensor | None, ...]:
        past, past_cell, keep, gates, tanh_c, weight = ctx.saved_tensors
        o, i, f, g = torch.split(gates, weight.shape[-1], -1)
        # Each gate's gradient is the gradient of h (for o) or c times a factor known for all steps at once.
        by_h = tanh_c * o * (1 - o)
        by_c = torch.stack((g * i * (1 - i), past_cell * f * (1 - f), i * (1 - g * g)), -2)
        into_c, fade = o * (1 - tanh_c * tanh_c), f * keep
        towards = gates.new_empty(*past.shape[:-1], 4, past.shape[-1])
        grad_h, grad_c = grads[0].clone(), torch.zeros_like(past)
        columns = (
            grad_h, grad_c, grad_c.unsqueeze(-2), by_h, by_c, into_c, fade, keep,
            towards[..., 0, :], towards[..., 1:, :], towards.flatten(-2),
        )  # fmt: skip
        later = zip(*(reversed(rows) for rows in _by_step(columns)), strict=True)
        before = [*reversed(list(zip(grad_h.unbind(0), grad_c.unbind(0), strict=True))[:-1]), None]
        for (dh, dc, dc_all, h_factor, c_factor, into, faded, kept, do, difg, flat), earlier in zip(
            later, before, strict=True
        ):
            dc.addcmul_(dh, into)
            torch.mul(h_factor, dh, out=do)
            torch.mul(c_factor, dc_all, out=difg)
            if earlier is not None:
                earlier[0].addcmul_(flat.bmm(weight), kept)
                torch.mul(dc, faded, out=earlier[1])
        return towards.flatten(-2), None, *_towards_weights(towards.flatten(-2), past), None, None


def _by_step(columns: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """Views of every step, made at once: indexing inside the loop costs as much as the arithmetic."""
    return [column.unbind(0) for column in columns]


def _towards_weights(grad: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the recurrent weight and bias from all steps: one product for each memory."""
    rows, inputs = (tensor.transpose(0, 1).flatten(1, 2) for tensor in (grad, past))
    return rows.transpose(1, 2).bmm(inputs), rows.sum(1)


def _blocks(inputs: int, size: int, count: int, rng: Rng) -> nn.Linear:
    """One layer into all gates of all memories; each gate's block is orthogonal by itself."""
    layer = linear(inputs, count * size)
    with torch.no_grad():
        for i, rows in enumerate(torch.split(layer.weight, size)):
            block = linear(inputs, size)
            orthogonal(block, 1.0, rng.fork(i))
            rows.copy_(block.weight)
        layer.bias.zero_()
    return layer
