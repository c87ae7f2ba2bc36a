"""The columns in which a rollout keeps what a recurrent agent remembered."""

from __future__ import annotations

import torch

from rlstudio.core.contracts import Carried


class CarryColumns:
    """Of a block [T, B]: `carry`, what the agent remembered before each step, and `resets`, where an episode starts.
    The first row never resets: its stored carry is fresh already where it should be."""

    def __init__(self, lead: tuple[int, ...], like: Carried) -> None:
        """`like`: rows of all environments in the shapes that the agent remembers."""
        self.columns = {name: torch.zeros((*lead, *rows.shape[1:])) for name, rows in like.items()}
        self.resets = torch.zeros(lead, dtype=torch.bool)
        self._arrays = {name: column.numpy() for name, column in self.columns.items()}

    def write(self, t: int, carry: Carried | None) -> None:
        """None: nothing was remembered at all."""
        for name, array in self._arrays.items():
            array[t] = 0 if carry is None else carry[name]

    def close(self, dones_TB: torch.Tensor) -> None:
        """The block is full: a row resets where the one before it ended an episode."""
        self.resets[1:] = dones_TB[:-1]
