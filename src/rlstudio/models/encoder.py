"""Encoders: observations of any supported space become features [N, D].

Numbers are flattened, choices become one-hots, a dict is the concatenation of its entries in name order; images go
through the convolutional network of the DQN paper (Mnih et al. 2015).
"""

from __future__ import annotations

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.initialize import convolution, linear, orthogonal
from rlstudio.models.normalizer import Normalizer

Observations = Tensor | dict[str, Tensor]


def flat_size(space: Space) -> int:
    """Length of the feature vector of a space without images."""
    match space:
        case Box():
            return space.size
        case Discrete():
            return space.n
        case MultiDiscrete():
            return sum(space.nvec)
        case Dict():
            return sum(flat_size(entry) for _, entry in space.items())


def flat_features(space: Leaf, x: Tensor) -> Tensor:
    """One leaf's rows [N, ...] as features [N, D]."""
    match space:
        case Box():
            flat = x.reshape(x.shape[0], -1).float()
            return flat * (1.0 / 255.0) if space.dtype == "uint8" else flat
        case Discrete():
            return F.one_hot(x.long() - space.start, space.n).float()
        case MultiDiscrete():
            return torch.cat([F.one_hot(x[:, i].long(), n) for i, n in enumerate(space.nvec)], -1).float()


class FlatEncoder(nn.Module):
    """Features of a space without images; no parameters of its own, an optional normalizer."""

    def __init__(self, space: Space, normalize: bool) -> None:
        super().__init__()
        self.space = space
        self.size = flat_size(space)
        self.normalizer = Normalizer(self.size) if normalize else None

    def raw(self, observations: Observations) -> Tensor:
        if isinstance(self.space, Dict):
            assert isinstance(observations, dict)
            return torch.cat([flat_features(entry, observations[name]) for name, entry in self.space.items()], -1)
        assert isinstance(observations, Tensor)
        return flat_features(self.space, observations)

    def forward(self, observations: Observations) -> Tensor:
        features = self.raw(observations)
        return features if self.normalizer is None else self.normalizer(features)


class ImageEncoder(nn.Module):
    """uint8 images [N, H, W, C] or [N, C, H, W] (the smaller outer side is the channel) to 512 features."""

    normalizer = None

    def __init__(self, space: Box, rng: Rng) -> None:
        super().__init__()
        self.channels_last = space.shape[2] <= space.shape[0]
        height, width = space.shape[:2] if self.channels_last else space.shape[1:]
        channels = space.shape[2] if self.channels_last else space.shape[0]
        if min(height, width) < 36:
            raise Incompatible(f"a CNN needs images of at least 36 x 36, {describe(space)} is smaller; use kind: mlp")
        self.convolutions = nn.Sequential(
            convolution(channels, 32, 8, 4),
            nn.ReLU(),
            convolution(32, 64, 4, 2),
            nn.ReLU(),
            convolution(64, 64, 3, 1),
            nn.ReLU(),
        )
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, channels, height, width)).numel()
        self.project = linear(flat, 512)
        self.size = 512
        for i, layer in enumerate([*list(self.convolutions)[::2], self.project]):
            assert isinstance(layer, nn.Conv2d | nn.Linear)
            orthogonal(layer, sqrt(2.0), rng.fork(i))

    def forward(self, observations: Tensor) -> Tensor:
        x = observations.permute(0, 3, 1, 2) if self.channels_last else observations
        x = self.convolutions(x.float() * (1.0 / 255.0))
        return torch.relu(self.project(x.flatten(1)))


Encoder = FlatEncoder | ImageEncoder


def build_encoder(space: Space, network: NetworkConfig, rng: Rng) -> Encoder:
    is_image = isinstance(space, Box) and space.is_image
    if network.kind == "cnn" and not is_image:
        raise Incompatible(f"policy.network.kind cnn needs uint8 images [H, W, C]; the env shows {describe(space)}")
    if is_image and network.kind != "mlp":
        assert isinstance(space, Box)
        if network.normalize_observations:
            raise Incompatible(
                "policy.network.normalize_observations: images are scaled to 0..1 anyway; set it to false"
            )
        return ImageEncoder(space, rng)
    return FlatEncoder(space, network.normalize_observations)
