"""The random numbers of plans: what they are distributed like, and what they are a function of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.planners.noise import Noise

SHARES_BELOW = {
    "normal": torch.special.ndtr,
    "uniform": lambda numbers: numbers.clamp(0, 1),
    "gumbel": lambda numbers: torch.exp(-torch.exp(-numbers)),
}


def is_like(numbers: torch.Tensor, kind: str) -> bool:
    """Kolmogorov and Smirnov: how far the shares below each number are from what they should be, at p > 0.001."""
    ranked = numbers.flatten().double().sort().values
    shares = torch.arange(1, len(ranked) + 1) / len(ranked)
    return float((SHARES_BELOW[kind](ranked) - shares).abs().max()) < 1.95 / len(ranked) ** 0.5


@pytest.mark.parametrize("kind", ["normal", "uniform", "gumbel"])
def test_drawn_numbers_have_their_distribution(kind: str) -> None:
    noise = Noise(kind, (50, 4))  # type: ignore[arg-type]
    drawn = noise(np.random.default_rng(0), 100)
    assert drawn.shape == (100, 50, 4)
    assert drawn.dtype == torch.float32
    assert is_like(drawn, kind)
    assert not is_like(drawn + 0.05, kind)
    torch.testing.assert_close(drawn, noise(np.random.default_rng(0), 100), atol=0, rtol=0)
    assert not torch.equal(drawn, noise(np.random.default_rng(1), 100))


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_numbers_of_ages_have_their_distribution_in_every_direction(kind: str) -> None:
    numbers = Noise(kind, (200,)).at_ages(np.arange(100))  # type: ignore[arg-type]
    assert is_like(numbers, kind)
    along, across = np.corrcoef(numbers.numpy()), np.corrcoef(numbers.numpy().T)
    for correlations, count in ((along, 200), (across, 100)):
        off = correlations[np.triu_indices(len(correlations), 1)]
        assert np.abs(off).max() < 5.5 / np.sqrt(count)
        assert off.std() == pytest.approx(1 / np.sqrt(count), rel=0.05)


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_an_age_has_its_numbers_wherever_it_stands(ages: list[int]) -> None:
    noise = Noise("normal", (3, 2))
    together = noise.at_ages(np.array(ages, np.int64))
    for row, age in zip(together, ages, strict=True):
        assert torch.equal(row, noise.at_ages(np.array([age]))[0])
        assert torch.isfinite(row).all()
    assert len(together.flatten(1).unique(dim=0)) == len(set(ages))


def test_uniform_numbers_are_inside() -> None:
    numbers = Noise("uniform", (1000,)).at_ages(np.arange(2000))
    assert 0.0 < numbers.min() < 1e-5
    assert 1.0 - 1e-5 < numbers.max() < 1.0


def test_left_to_itself_a_tree_search_tries_nothing_out() -> None:
    assert Noise("gumbel", (4,)).at_ages(np.arange(3)).tolist() == [[0.0] * 4] * 3
