"""The random numbers of plans: drawn one after another, or as a function of how old an episode is."""

from __future__ import annotations

from math import prod, sqrt
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Noise(NamedTuple):
    """Implements `core.contracts.PlanNoise`."""

    kind: Literal["normal", "uniform", "gumbel"]
    shape: tuple[int, ...]  # of one plan

    def __call__(self, generator: np.random.Generator, envs: int, device: str = "cpu") -> Tensor:
        # Torch draws normal numbers in less than half of NumPy's time, which for many environments is half of a plan.
        torchs = torch.Generator(device).manual_seed(int(generator.integers(2**63)))
        drawn = torch.empty(envs, *self.shape, device=device)
        match self.kind:
            case "normal":
                return drawn.normal_(generator=torchs)
            case "uniform":
                return drawn.uniform_(generator=torchs)
        return drawn.exponential_(generator=torchs).log_().neg_()

    def at_ages(self, ages: np.ndarray) -> Tensor:
        """Other numbers in every step, or an unlucky choice of sequences would be made again and again; the same for
        environments of the same age. Gumbel noise is there to try things out: an agent left to itself has none."""
        if self.kind == "gumbel":
            return torch.zeros(len(ages), *self.shape)
        keys = _mixed(ages.astype(np.uint64) + np.uint64(1))
        numbers = np.arange(1, prod(self.shape) + 1, dtype=np.uint64) * GOLDEN
        bits = _mixed(keys[:, None] + numbers) >> np.uint64(41)  # 23 of them: all that keeps 1 away
        uniform = torch.from_numpy((bits.astype(np.float32) + 0.5) * 2.0**-23).view(-1, *self.shape)
        return uniform if self.kind == "uniform" else torch.erfinv(2.0 * uniform - 1.0) * sqrt(2.0)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """SplitMix64 (Steele et al. 2014): neighbouring numbers become unrelated ones."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed
