"""The layers of encoder, memory and MLP in the words of `core/model`: what the NumPy acting kernel runs."""

from __future__ import annotations

from rlstudio.core.model.layers import Layers
from rlstudio.core.spaces import Box, Dict
from rlstudio.models.networks.encoder import Encoder, FlatEncoder
from rlstudio.models.networks.memory import Memory
from rlstudio.models.networks.mlp import MLP


def layers_of(encoder: Encoder, net: MLP, memory: Memory | None = None) -> Layers | None:
    """None where the encoder does more than to take numbers as they are: images, bytes, choices, several entries."""
    if not isinstance(encoder, FlatEncoder):
        return None
    space = encoder.space
    only = space.items()[0][1] if isinstance(space, Dict) and len(space.items()) == 1 else space
    if not isinstance(only, Box) or only.dtype == "uint8":  # bytes are scaled by the encoder
        return None
    return Layers(
        size=encoder.size,
        linears=net.linears(),
        activation=net.activation,
        entry=encoder.entry,
        moments=None if encoder.normalizer is None else encoder.normalizer.moments(),
        memory=None if memory is None else memory.described(),
    )
