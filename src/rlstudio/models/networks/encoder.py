"""Encoders: observations of any supported space become features [..., D]; leading dimensions stay as they are.

Numbers are flattened, choices become one-hots; images go through the convolutional network of the DQN paper (Mnih et
al. 2015). A dict is the concatenation of its entries in name order, then of its images, each through a network of its
own. The entry `action_mask` says what may be done, not what is: no encoder sees it.
"""

from __future__ import annotations

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.action_mask import features
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import Observations
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.initialize import convolution, linear, orthogonal
from rlstudio.models.networks.normalizer import Normalizer

SMALLEST_IMAGE = 36


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
    """One leaf's rows as features [..., D]."""
    match space:
        case Box():
            if x.dtype == torch.float32 and len(space.shape) == 1 and space.dtype != "uint8":
                return x  # what nearly every observation is; asking it to become so costs as much as a small product
            flat = x.reshape(*x.shape[: x.dim() - len(space.shape)], space.size).float()
            return flat * (1.0 / 255.0) if space.dtype == "uint8" else flat
        case Discrete():
            return F.one_hot(x.long() - space.start, space.n).float()
        case MultiDiscrete():
            return torch.cat([F.one_hot(x[..., i].long(), n) for i, n in enumerate(space.nvec)], -1).float()


class FlatEncoder(nn.Module):
    """Features of a space without images; no parameters of its own, an optional normalizer."""

    def __init__(self, space: Space, normalize: bool) -> None:
        super().__init__()
        self.space = space
        self.size = flat_size(space)
        self.entry = space.items()[0][0] if isinstance(space, Dict) and len(space.items()) == 1 else None
        self.normalizer = Normalizer(self.size) if normalize else None

    def raw(self, observations: Observations) -> Tensor:
        if isinstance(self.space, Dict):
            assert isinstance(observations, dict)
            if self.entry is not None:
                return flat_features(self.space.items()[0][1], observations[self.entry])
            return torch.cat([flat_features(entry, observations[name]) for name, entry in self.space.items()], -1)
        assert isinstance(observations, Tensor)
        return flat_features(self.space, observations)

    def forward(self, observations: Observations) -> Tensor:
        features = self.raw(observations)
        return features if self.normalizer is None else self.normalizer(features)


class ImageEncoder(nn.Module):
    """uint8 images [..., H, W, C] or [..., C, H, W] (the smaller outer side is the channel) to 512 features."""

    normalizer = None

    def __init__(self, space: Box, rng: Rng) -> None:
        super().__init__()
        self.shape = space.shape
        self.channels_last = space.shape[2] <= space.shape[0]
        height, width = _height_width(space.shape)
        channels = space.shape[2] if self.channels_last else space.shape[0]
        if not fits_cnn(space):
            side = SMALLEST_IMAGE
            raise Incompatible(
                f"a CNN needs images of at least {side} x {side}, {describe(space)} is smaller; use kind: mlp"
            )
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
        lead = observations.shape[:-3]
        x = observations.reshape(-1, *self.shape)
        x = x.permute(0, 3, 1, 2) if self.channels_last else x
        x = self.convolutions(x.float() * (1.0 / 255.0))
        return torch.relu(self.project(x.flatten(1))).view(*lead, self.size)


class MixedEncoder(nn.Module):
    """A dict with images: the other entries flat (and normalized, where asked for), each image through its own CNN."""

    def __init__(self, space: Dict, normalize: bool, rng: Rng) -> None:
        super().__init__()
        images = {name: entry for name, entry in space.items() if isinstance(entry, Box) and fits_cnn(entry)}
        self.flat = FlatEncoder(Dict(tuple(item for item in space.items() if item[0] not in images)), normalize)
        self.names = tuple(images)
        self.images = nn.ModuleList(ImageEncoder(entry, rng.fork(name)) for name, entry in images.items())
        self.size = self.flat.size + 512 * len(images)

    @property
    def normalizer(self) -> Normalizer | None:
        return self.flat.normalizer

    def raw(self, observations: dict[str, Tensor]) -> Tensor:
        return self.flat.raw(observations)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        parts = [encoder(observations[name]) for name, encoder in zip(self.names, self.images, strict=True)]
        return torch.cat([self.flat(observations), *parts] if self.flat.size else parts, -1)


Encoder = FlatEncoder | ImageEncoder | MixedEncoder


def settled(network: NetworkConfig, spaces: Spaces) -> NetworkConfig:
    """The section for one world, without `numeric` and `auto`: what a Model is built from and described by.

    Both normalise bytes that are no image: MiniGrid's codes up to 10 would reach a network as numbers up to 0.04.
    """
    if isinstance(network.normalize_observations, bool):
        return network
    rows = [leaf for leaf in _leaves(features(spaces.observation)) if isinstance(leaf, Box) and not leaf.is_image]
    always = network.normalize_observations == "numeric"
    wanted = always or isinstance(spaces.action, Box) or any(row.dtype == "uint8" for row in rows)
    return network.model_copy(update={"normalize_observations": bool(rows) and wanted})


def build_encoder(space: Space, network: NetworkConfig, rng: Rng) -> Encoder:
    """The encoder of what an environment shows, its action mask left out."""
    space = features(space)
    leaves = _leaves(space)
    assert isinstance(network.normalize_observations, bool), "see `settled`"
    # Alone, an image too small for the convolutions is refused, since the remedy is one word; in a dict it goes flat.
    images = [leaf for leaf in leaves if (fits_cnn(leaf) if isinstance(space, Dict) else _is_image(leaf))]
    _check(space, network, images)
    if not images or network.kind == "mlp":
        return FlatEncoder(space, network.normalize_observations)
    if isinstance(space, Dict):
        return MixedEncoder(space, network.normalize_observations, rng)
    assert isinstance(space, Box)
    return ImageEncoder(space, rng)


def _check(space: Space, network: NetworkConfig, images: list[Leaf]) -> None:
    """Refuse what no encoder can be built for."""
    if not _leaves(space):
        raise Incompatible("the env shows nothing but an action mask; show something to decide by")
    if network.kind == "cnn" and not images:
        raise Incompatible(f"policy.network.kind cnn needs uint8 images [H, W, C]; the env shows {describe(space)}")
    only_images = len(images) == len(_leaves(space)) and network.kind != "mlp"
    if network.normalize_observations and only_images:
        raise Incompatible("policy.network.normalize_observations: images are scaled to 0..1 anyway; set it to false")


def _leaves(space: Space) -> list[Leaf]:
    return [entry for _, entry in space.items()] if isinstance(space, Dict) else [space]


def fits_cnn(space: Leaf) -> bool:
    """Whether it is an image, and large enough for the three convolutions."""
    return _is_image(space) and min(_height_width(space.shape)) >= SMALLEST_IMAGE


def _is_image(space: Leaf) -> bool:
    return isinstance(space, Box) and space.is_image


def _height_width(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:2] if shape[2] <= shape[0] else shape[1:]
