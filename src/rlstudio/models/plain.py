"""Networks in plain operations, from copies of their weights: what export follows.

The Models themselves have autograd nodes of their own and weights in one flat buffer, neither of which an exporter can
follow, so this is a second way of saying the same thing. That both ways agree is checked at each export.

    forward(observations by entry, carry by part) -> (outputs [N, O], carry after)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlstudio.core.model.layers import Layers, Linear, MemoryLayers, Moments
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete
from rlstudio.models.networks.encoder import Encoder, FlatEncoder, ImageEncoder, MixedEncoder
from rlstudio.models.networks.initialize import convolution
from rlstudio.models.networks.memory import Memory
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.perceptron import Perceptron, copied_linear

Entries = dict[str, Tensor]


def plain_network(encoder: Encoder, net: MLP, memory: Memory | None = None) -> PlainNetwork:
    """The plain network of the parts that our own Models are made of."""
    remembers = None if memory is None else memory.described()
    return PlainNetwork(_Encodes(encoder), net.linears(), net.activation, remembers)


def plain_layers(layers: Layers) -> PlainNetwork:
    """The plain network of a Model that describes its layers."""
    encoder = _Numbers(layers.entry or "", layers.size, layers.moments)
    return PlainNetwork(encoder, layers.linears, layers.activation, layers.memory)


class PlainNetwork(nn.Module):
    """Encoder, memory, linear layers with one activation between them."""

    def __init__(
        self, encoder: nn.Module, linears: Sequence[Linear], activation: str, memory: MemoryLayers | None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.memory = None if memory is None else _Remembers(memory)
        self.net = Perceptron(linears, activation)

    def forward(self, entries: Entries, carry: Entries) -> tuple[Tensor, Entries]:
        features, after = self.encoder(entries), {}
        if self.memory is not None:
            features, after = self.memory(features, carry)
        return self.net(features), after


# -- observations to features ------------------------------------------------------------------------------------------


class _Encodes(nn.Module):
    """Observations by entry to features [N, D]: what `models/networks/encoder.py` does, over one leading dimension."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        flat = encoder.flat if isinstance(encoder, MixedEncoder) else encoder
        self.leaves: tuple[tuple[str, Leaf], ...] = ()
        self.moments: _Normalizes | None = None
        if isinstance(flat, FlatEncoder):
            space = flat.space
            self.leaves = space.items() if isinstance(space, Dict) else (("", space),)
            self.moments = None if flat.normalizer is None else _Normalizes(flat.normalizer.moments())
        images: dict[str, ImageEncoder] = {"": encoder} if isinstance(encoder, ImageEncoder) else {}
        if isinstance(encoder, MixedEncoder):
            images = dict(zip(encoder.names, encoder.images, strict=True))  # type: ignore[arg-type]
        self.names = tuple(images)
        self.images = nn.ModuleList(_Sees(image) for image in images.values())

    def forward(self, entries: Entries) -> Tensor:
        parts: list[Tensor] = []
        if self.leaves:
            flat = torch.cat([_flat(space, entries[name]) for name, space in self.leaves], -1)
            parts.append(flat if self.moments is None else self.moments(flat))
        parts += [image(entries[name]) for name, image in zip(self.names, self.images, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


class _Numbers(nn.Module):
    """One entry of `size` numbers."""

    def __init__(self, entry: str, size: int, moments: Moments | None) -> None:
        super().__init__()
        self.entry, self.size = entry, size
        self.moments = None if moments is None else _Normalizes(moments)

    def forward(self, entries: Entries) -> Tensor:
        numbers = entries[self.entry].reshape(-1, self.size).float()
        return numbers if self.moments is None else self.moments(numbers)


def _flat(space: Leaf, x: Tensor) -> Tensor:
    match space:
        case Box():
            numbers = x.reshape(-1, space.size).float()
            return numbers * (1.0 / 255.0) if space.dtype == "uint8" else numbers
        case Discrete():
            return _one_hot(x - space.start, space.n)
        case MultiDiscrete():
            return torch.cat([_one_hot(x[:, i], n) for i, n in enumerate(space.nvec)], -1)


def _one_hot(x: Tensor, n: int) -> Tensor:
    return (x.unsqueeze(-1) == torch.arange(n)).float()


class _Normalizes(nn.Module):
    """The normalizer, frozen."""

    mean: Tensor
    inverse_std: Tensor

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self.register_buffer("mean", moments.mean.detach().cpu().clone())
        self.register_buffer("inverse_std", moments.inverse_std.detach().cpu().clone())
        self.clip = moments.clip

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * self.inverse_std).clamp(-self.clip, self.clip)


class _Sees(nn.Module):
    """Images [N, H, W, C] or [N, C, H, W] to features; a stack of frames is the channel axis."""

    def __init__(self, encoder: ImageEncoder) -> None:
        super().__init__()
        self.channels_last = encoder.channels_last
        layers = [
            _copied_convolution(layer) if isinstance(layer, nn.Conv2d) else nn.ReLU() for layer in encoder.convolutions
        ]
        self.convolutions = nn.Sequential(*layers)
        self.project = copied_linear(Linear(encoder.project.weight, encoder.project.bias))

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 3, 1, 2) if self.channels_last else x
        return torch.relu(self.project(self.convolutions(x.float() * (1.0 / 255.0)).flatten(1)))


# -- memory ------------------------------------------------------------------------------------------------------------


class _Remembers(nn.Module):
    """One step of `models/networks/memory.py`. Dims: N rows, K memories, G gates, H units."""

    def __init__(self, memory: MemoryLayers) -> None:
        super().__init__()
        self.inputs, self.recurrent = copied_linear(memory.inputs), copied_linear(memory.recurrent)
        self.count, self.size, self.parts = memory.memories, memory.size, memory.parts
        self.step = {"gru": _gru, "lstm": _lstm}[memory.kind]

    def forward(self, features: Tensor, carry: Entries) -> tuple[Tensor, Entries]:
        """-> what the policy's memory shows [N, H], the carry after it [N, K, H]."""
        weight = self.recurrent.weight.view(self.count, -1, self.size)
        bias = self.recurrent.bias.view(self.count, 1, -1)
        x = self.inputs(features).view(-1, self.count, weight.shape[1]).transpose(0, 1)  # [K, N, GH]
        before = [carry[part].transpose(0, 1) for part in self.parts]
        after = self.step(x, before[0] @ weight.transpose(1, 2) + bias, before, self.size)
        held = (part.transpose(0, 1).contiguous() for part in after)
        return after[0][0], dict(zip(self.parts, held, strict=True))


def _gru(x: Tensor, u: Tensor, before: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    r, z = torch.split(torch.sigmoid(x[..., : 2 * size] + u[..., : 2 * size]), size, -1)
    n = torch.tanh(x[..., 2 * size :] + r * u[..., 2 * size :])
    return (n + z * (before[0] - n),)


def _lstm(x: Tensor, u: Tensor, before: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    o, i, f, g = torch.split(x + u, size, -1)
    cell = torch.sigmoid(f) * before[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


# -- copies ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _copied_convolution(layer: nn.Conv2d) -> nn.Conv2d:
    same = convolution(layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0])
    assert layer.bias is not None
    assert same.bias is not None
    same.weight.copy_(layer.weight)
    same.bias.copy_(layer.bias)
    return same
