"""The trajectory model: its coding of actions, its schedule, and sampling against a prior with a closed form."""

from __future__ import annotations

from math import cos, pi, sin

import pytest
import torch
from torch import Tensor

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import NOISIEST, TrajectoryModel, ddim, noised

OBSERVATION = Box((3,), "float32", (-1.0,), (1.0,))
FORCE = Box((2,), "float32", (-2.0, 0.0), (2.0, 10.0))


def model(action: Space = FORCE, seed: int = 0) -> TrajectoryModel:
    return TrajectoryModel(Spaces(OBSERVATION, action), NetworkConfig(hidden_sizes=(16,)), Rng(seed), horizon=4)


def test_numbers_fill_the_unit_interval_and_choices_become_bits() -> None:
    numbers = model()
    actions = torch.tensor([[-2.0, 0.0], [2.0, 10.0], [1.0, 5.0]])
    torch.testing.assert_close(numbers.encode(actions), torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.5, 0.0]]))
    torch.testing.assert_close(numbers.decode(torch.tensor([[1.7, -0.2]])), torch.tensor([[1.0, -0.2]]))
    choices = model(Discrete(3))
    assert choices.encode(torch.tensor([2, 0])).tolist() == [[-1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    assert choices.decode(choices.encode(torch.tensor([[2, 0, 1]]))).tolist() == [[2, 0, 1]]


def test_it_is_a_function_of_sequence_time_and_observation() -> None:
    net = model()
    x, times, seen = torch.randn(5, 4, 2), torch.rand(5), torch.randn(5, 3)
    found = net(x, times, seen)
    assert found.shape == (5, 4, 2)
    torch.testing.assert_close(found[2:3], net(x[2:3], times[2:3], seen[2:3]))
    for changed in (net(x + 1, times, seen), net(x, times * 0.5, seen), net(x, times, seen + 1)):
        assert not torch.allclose(found, changed)
    torch.testing.assert_close(model().state_dict(), net.state_dict())
    assert not torch.equal(model(seed=1).net.layers[0].weight, net.net.layers[0].weight)


def test_the_statistics_of_observations_are_part_of_it() -> None:
    net = model()
    net.normalizer.update(torch.tensor([[0.0, 10.0, 5.0], [2.0, 30.0, 5.5]]))
    again = model(seed=1)
    again.load_state_dict(net.state_dict())
    x, times, seen = torch.randn(2, 4, 2), torch.rand(2), torch.tensor([[1.0, 20.0, 5.2]] * 2)
    torch.testing.assert_close(again(x, times, seen), net(x, times, seen))
    assert "normalizer.mean" in net.state_dict()


def test_the_schedule_mixes_with_unit_power() -> None:
    x, noise = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    times = torch.tensor([0.0, 0.5, 1.0])
    mixed = noised(x, times, noise)
    torch.testing.assert_close(mixed[0], x[0])
    torch.testing.assert_close(mixed[1], (x[1] + noise[1]) / 2**0.5)
    torch.testing.assert_close(mixed[2], noise[2], atol=1e-6, rtol=1e-6)


def test_sampling_a_point_finds_it_whatever_the_noise() -> None:
    point = torch.tensor([[0.3, -0.7]])
    found = ddim(lambda x, time: point.expand_as(x), torch.randn(6, 1, 2), levels=3)
    torch.testing.assert_close(found, point.expand(6, 1, 2))


@pytest.mark.parametrize(("levels", "close"), [(10, 0.1), (400, 0.003)])
def test_sampling_a_gaussian_gives_that_gaussian(levels: int, close: float) -> None:
    """For data N(m, s^2) the best guess is known, and DDIM carries noise over linearly: x = m + s noise, as levels grow
    (up to what the noise at the start still knew of the data)."""
    mean, std = 0.4, 0.3

    def guess(x: Tensor, time: float) -> Tensor:
        a, b = cos(pi / 2 * time), sin(pi / 2 * time)
        return mean + a * std**2 / (a**2 * std**2 + b**2) * (x - a * mean)

    noise = torch.linspace(-2, 2, 9).view(9, 1, 1)
    start = cos(pi / 2 * NOISIEST)
    exact = mean + std * (noise - start * mean) / (start**2 * std**2 + 1 - start**2) ** 0.5
    torch.testing.assert_close(ddim(guess, noise, levels), exact, atol=close, rtol=0)


@pytest.mark.parametrize(
    ("spaces", "said"),
    [
        (Spaces(OBSERVATION, MultiDiscrete((2, 3))), "numbers with bounds or one choice"),
        (Spaces(OBSERVATION, Box((1,), "float32", (float("-inf"),), (1.0,))), "without bounds"),
        (Spaces(Discrete(4), FORCE), "needs a row of numbers"),
        (Spaces(Dict((("a", OBSERVATION),)), FORCE), "needs a row of numbers"),
    ],
)
def test_spaces_that_do_not_fit_are_refused_by_name(spaces: Spaces, said: str) -> None:
    with pytest.raises(Incompatible, match=said):
        TrajectoryModel(spaces, NetworkConfig(), Rng(0), horizon=4)
