"""Dicts with images: each image through a network of its own, the rest flat; and rows with any leading dimensions."""

import pytest
import torch

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.models.build import build_model, build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import FlatEncoder, MixedEncoder, build_encoder
from rlstudio.models.policies.distributions import entropy, log_prob, mode
from rlstudio.models.policies.q_values import QValue

LINE = Box((3,), "float32", (-1,), (1,))
CAMERA, THUMB = Box((40, 44, 3), "uint8", (0,), (255,)), Box((7, 7, 3), "uint8", (0,), (255,))
MIXED = Dict((("a.camera", CAMERA), ("line", LINE), ("rear", CAMERA), ("room", Discrete(4)), ("thumb", THUMB)))


def rows(*lead: int, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    image = lambda box: torch.randint(0, 256, (*lead, *box.shape), generator=g, dtype=torch.uint8)  # noqa: E731
    return {
        "a.camera": image(CAMERA),
        "line": torch.randn(*lead, 3, generator=g),
        "rear": image(CAMERA),
        "room": torch.randint(0, 4, lead, generator=g),
        "thumb": image(THUMB),
    }


def test_features_are_the_flat_entries_in_order_and_then_the_images():
    encoder = build_encoder(MIXED, NetworkConfig(), Rng(0))
    assert isinstance(encoder, MixedEncoder)
    assert encoder.names == ("a.camera", "rear")
    assert encoder.size == 3 + 4 + 147 + 2 * 512
    seen = rows(5)
    features = encoder(seen)
    assert torch.equal(features[:, :3], seen["line"])
    assert torch.equal(features[:, 3:7].argmax(-1), seen["room"])
    assert torch.allclose(features[:, 7:154], seen["thumb"].flatten(1) / 255)
    for i, name in enumerate(encoder.names):
        assert torch.equal(features[:, 154 + 512 * i :][:, :512], encoder.images[i](seen[name]))
    assert not torch.equal(encoder.images[0](seen["rear"]), encoder.images[1](seen["rear"]))  # weights of their own


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_bytes_in_a_row_are_scaled_whatever_numbers_they_come_as(dtype):
    """A network that imagines observations, or an exported graph, has them as floats."""
    memory = Box((4,), "uint8", (0,), (255,))
    values = torch.tensor([[0, 51, 102, 255]], dtype=dtype)
    assert torch.allclose(FlatEncoder(memory, normalize=False)(values), torch.tensor([[0.0, 0.2, 0.4, 1.0]]))


def test_the_kind_of_network_decides_about_images():
    assert isinstance(build_encoder(MIXED, NetworkConfig(kind="mlp"), Rng(0)), FlatEncoder)
    small = Dict((("line", LINE), ("thumb", THUMB)))
    assert isinstance(build_encoder(small, NetworkConfig(), Rng(0)), FlatEncoder)
    with pytest.raises(Incompatible, match=r"cnn needs uint8 images.*Dict\(line"):
        build_encoder(small, NetworkConfig(kind="cnn"), Rng(0))
    images = Dict((("a", CAMERA), ("b", CAMERA)))
    both = {"a": rows(2)["rear"], "b": rows(2)["rear"]}
    assert build_encoder(images, NetworkConfig(), Rng(0))(both).shape == (2, 1024)
    with pytest.raises(Incompatible, match="images are scaled to"):
        build_encoder(images, NetworkConfig(normalize_observations=True), Rng(0))


def test_the_normalizer_is_for_the_flat_entries():
    encoder = build_encoder(MIXED, NetworkConfig(normalize_observations=True), Rng(0))
    seen = rows(50)
    encoder.normalizer.update(encoder.raw(seen))
    features = encoder(seen)
    assert torch.allclose(features[:, :3].mean(0), torch.zeros(3), atol=1e-5)
    assert torch.equal(features[:, 154:666], encoder.images[0](seen["a.camera"]))


@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete((2, 3)), Box((2,), "float32", (-1,), (1,))])
@pytest.mark.parametrize("space", [MIXED, LINE, Discrete(4), CAMERA], ids=["dict", "box", "discrete", "image"])
def test_leading_dimensions_stay_as_they_are(space, action):
    seen = rows(4, 3)
    shown = {MIXED: seen, LINE: seen["line"], CAMERA: seen["rear"]}.get(space, seen["room"])
    flat = {k: v.flatten(0, 1) for k, v in shown.items()} if isinstance(shown, dict) else shown.flatten(0, 1)
    network = NetworkConfig(hidden_sizes=(8,))
    model = build_policy_value(Spaces(space, action), network, Rng(0))
    (block, values), (lines, line_values) = model(shown), model(flat)
    assert values.shape == (4, 3)
    assert torch.equal(values.flatten(), line_values)
    actions = mode(block)
    assert torch.equal(log_prob(block, actions).flatten(), log_prob(lines, actions.flatten(0, 1)))
    assert torch.equal(entropy(block).flatten(), entropy(lines))


def test_q_values_of_mixed_dicts():
    model = build_model(QValue, Spaces(MIXED, Discrete(3)), NetworkConfig(hidden_sizes=(8,)), Rng(0))
    assert model(rows(5)).shape == (5, 3)
