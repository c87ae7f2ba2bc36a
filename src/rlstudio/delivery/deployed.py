"""What is exported: an agent as one module of plain operations, from observations to the environment's own actions.

    forward(*inputs) -> (actions, outputs, *carry)

Inputs are the observations (one tensor, or one for each entry of a dict, `action_mask` included) and what the agent
remembers; `outputs` is what decided: logits, values or means, after the mask. The Models themselves have autograd nodes
of their own and weights in one flat buffer, neither of which an exporter can follow, so this is a second way of saying
the same thing, from copies of the same weights. That both ways agree is checked at each export.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlstudio.agents.agent import Agent
from rlstudio.core.action_mask import ACTION_MASK, FORBIDDEN, ActionMask
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Spaces
from rlstudio.delivery.ports import Port, action_port, carry_ports, observation_ports, output_port
from rlstudio.models.networks.encoder import Encoder, FlatEncoder, ImageEncoder, MixedEncoder
from rlstudio.models.networks.initialize import convolution, linear
from rlstudio.models.networks.memory import GRU, LSTM, Memory
from rlstudio.models.networks.mlp import ACTIVATIONS, MLP
from rlstudio.models.networks.normalizer import CLIP
from rlstudio.models.policies.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.models.policies.q_values import QuantileValue, QValue, ranking_net
from rlstudio.models.policies.recurrent import RecurrentPolicyValue


class Deployed(nn.Module):
    """The greedy agent. Dims: N rows, K memories, G gates, H units."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        model: Any = getattr(agent, "model", None)
        spaces = agent.spaces
        if isinstance(model, RecurrentPolicyValue):
            self.memory: _Remembers | None = _Remembers(model.memory)
        elif isinstance(model, PolicyOnly | QValue | QuantileValue | SquashedPolicy | DeterministicPolicy):
            self.memory = None
        else:
            raise Incompatible(
                f"a {type(agent).__name__} cannot be exported yet: it does not act by a Model of RLStudio's own"
            )
        self.encoder = _Encodes(model.encoder)
        self.net = _Layers(ranking_net(model) if isinstance(model, QValue | QuantileValue) else model.policy_net)
        self.quantiles = model.quantiles if isinstance(model, QuantileValue) else 1
        self.mask = ActionMask.of(spaces)
        self.decide = _decision(model, spaces)
        held = {} if self.memory is None else {part: self.memory.shape for part in model.memory.parts}
        self.observations, self.carry = observation_ports(spaces.observation), carry_ports(held)
        self.results = (action_port(spaces.action), output_port(spaces.action))
        self.eval()
        self.requires_grad_(False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (*self.observations, *self.carry)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (*self.results, *(port.after for port in self.carry))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        entries = {port.part: rows for port, rows in zip(self.observations, inputs, strict=False)}
        features, after = self.encoder(entries), ()
        if self.memory is not None:
            features, after = self.memory(features, inputs[len(self.observations) :])
        outputs = self.net(features)
        if self.quantiles > 1:
            outputs = outputs.unflatten(1, (-1, self.quantiles)).mean(-1)
        if self.mask is not None:
            outputs = torch.where(self._allowed(entries[ACTION_MASK]), outputs, FORBIDDEN)
        actions, outputs = self.decide(outputs)
        return actions, outputs, *after

    def _allowed(self, mask: Tensor) -> Tensor:
        """As `ActionMask.allowed`, without changing anything in place."""
        assert self.mask is not None
        parts = [(mask != 0)[:, part] for part in self.mask.parts]
        return torch.cat([part | ~part.any(-1, keepdim=True) for part in parts], -1)


class _Layers(nn.Module):
    """An MLP: hidden layers with one activation, then a linear output."""

    def __init__(self, net: MLP) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_copied(layer) for layer in net.layers)
        self.activation = ACTIVATIONS[net.activation]

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = self.activation(layer(x))
        outputs: Tensor = last(x)
        return outputs


class _Encodes(nn.Module):
    """Observations by entry to features [N, D]: what `models/networks/encoder.py` does, over one leading dimension."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        flat = encoder.flat if isinstance(encoder, MixedEncoder) else encoder
        self.leaves: tuple[tuple[str, Leaf], ...] = ()
        self.moments: _Moments | None = None
        if isinstance(flat, FlatEncoder):
            space = flat.space
            self.leaves = space.items() if isinstance(space, Dict) else (("", space),)
            self.moments = None if flat.normalizer is None else _Moments(flat.normalizer)
        images: dict[str, ImageEncoder] = {"": encoder} if isinstance(encoder, ImageEncoder) else {}
        if isinstance(encoder, MixedEncoder):
            images = dict(zip(encoder.names, encoder.images, strict=True))  # type: ignore[arg-type]
        self.names = tuple(images)
        self.images = nn.ModuleList(_Sees(image) for image in images.values())

    def forward(self, entries: dict[str, Tensor]) -> Tensor:
        parts: list[Tensor] = []
        if self.leaves:
            flat = torch.cat([_flat(space, entries[name]) for name, space in self.leaves], -1)
            parts.append(flat if self.moments is None else self.moments(flat))
        parts += [image(entries[name]) for name, image in zip(self.names, self.images, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


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


class _Moments(nn.Module):
    """The normalizer, frozen."""

    mean: Tensor
    inverse_std: Tensor

    def __init__(self, normalizer: nn.Module) -> None:
        super().__init__()
        for name in ("mean", "inverse_std"):
            self.register_buffer(name, getattr(normalizer, name).detach().cpu().clone())

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * self.inverse_std).clamp(-CLIP, CLIP)


class _Sees(nn.Module):
    """Images [N, H, W, C] or [N, C, H, W] to features; a stack of frames is the channel axis."""

    def __init__(self, encoder: ImageEncoder) -> None:
        super().__init__()
        self.channels_last = encoder.channels_last
        layers = [_copied(layer) if isinstance(layer, nn.Conv2d) else nn.ReLU() for layer in encoder.convolutions]
        self.convolutions = nn.Sequential(*layers)
        self.project = _copied(encoder.project)

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 3, 1, 2) if self.channels_last else x
        return torch.relu(self.project(self.convolutions(x.float() * (1.0 / 255.0)).flatten(1)))


class _Remembers(nn.Module):
    """One step of a memory, for the formulas see `models/networks/memory.py`."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.inputs, self.recurrent = _copied(memory.inputs), _copied(memory.recurrent)
        self.count, self.size = self.shape = (memory.count, memory.size)
        self.step = {GRU: _gru, LSTM: _lstm}[type(memory)]

    def forward(self, features: Tensor, carry: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """-> what the policy's memory shows [N, H], the carry after it [N, K, H]."""
        weight = self.recurrent.weight.view(self.count, -1, self.size)
        bias = _bias(self.recurrent).view(self.count, 1, -1)
        x = self.inputs(features).view(-1, self.count, weight.shape[1]).transpose(0, 1)  # [K, N, GH]
        before = [part.transpose(0, 1) for part in carry]
        after = self.step(x, before[0] @ weight.transpose(1, 2) + bias, before, self.size)
        return after[0][0], tuple(part.transpose(0, 1).contiguous() for part in after)


def _gru(x: Tensor, u: Tensor, before: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    r, z = torch.split(torch.sigmoid(x[..., : 2 * size] + u[..., : 2 * size]), size, -1)
    n = torch.tanh(x[..., 2 * size :] + r * u[..., 2 * size :])
    return (n + z * (before[0] - n),)


def _lstm(x: Tensor, u: Tensor, before: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    o, i, f, g = torch.split(x + u, size, -1)
    cell = torch.sigmoid(f) * before[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _copied(layer: nn.Module) -> nn.Linear | nn.Conv2d:
    """The same layer in memory of its own: a view of the flat buffer would drag all of it along."""
    if isinstance(layer, nn.Conv2d):
        same: nn.Linear | nn.Conv2d = convolution(
            layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0]
        )
    else:
        assert isinstance(layer, nn.Linear)
        same = linear(layer.in_features, layer.out_features)
    with torch.no_grad():
        same.weight.copy_(layer.weight)
        _bias(same).copy_(_bias(layer))
    return same


def _bias(layer: nn.Linear | nn.Conv2d) -> Tensor:
    assert layer.bias is not None
    return layer.bias


def _decision(model: nn.Module, spaces: Spaces) -> nn.Module:
    """How outputs become actions."""
    space = spaces.action
    if isinstance(space, Box):
        return _Moves(space, tanh=isinstance(model, SquashedPolicy | DeterministicPolicy))
    assert isinstance(space, Discrete | MultiDiscrete)
    return _Chooses(space)


class _Chooses(nn.Module):
    """The highest of each part, in the environment's numbering."""

    def __init__(self, space: Discrete | MultiDiscrete) -> None:
        super().__init__()
        self.nvec = None if isinstance(space, Discrete) else space.nvec
        self.start: int | tuple[int, ...] = space.start

    def forward(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        if self.nvec is None:
            chosen = outputs.argmax(-1)
        else:
            chosen = torch.stack([part.argmax(-1) for part in torch.split(outputs, list(self.nvec), -1)], -1)
        return chosen + torch.tensor(self.start) if self.start else chosen, outputs


class _Moves(nn.Module):
    """Numbers inside the bounds, in the dtype of the space: clipped, or squashed and scaled."""

    low: Tensor
    high: Tensor

    def __init__(self, space: Box, tanh: bool) -> None:
        super().__init__()
        low, high = (torch.tensor(side) for side in space.bounds())
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.size = space.size
        self.tanh = tanh
        self.dtype = low.dtype

    def forward(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        means = outputs[:, : self.size]
        actions = means
        if self.tanh:
            actions = torch.tanh(means) * ((self.high - self.low) / 2).float() + ((self.high + self.low) / 2).float()
        return torch.minimum(torch.maximum(actions.to(self.dtype), self.low), self.high), means
