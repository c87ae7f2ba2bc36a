"""RowStore: where a replay buffer keeps its transitions. Row number n sits in slot n % slots.

Rows live in one NumPy structured array, so a transition is one contiguous record: a gather touches one place per row
instead of one per column. Memory is committed only as rows arrive.
"""

from __future__ import annotations

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import State
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces

DOT = "."  # joins a column and its entry: observations.camera


class RowStore:
    """Whole transitions. `weighted`: whether any row ever came with a weight; without, samples leave the column out."""

    def __init__(self, dtype: np.dtype, slots: int) -> None:
        self.dtype = dtype
        self.slots = slots
        self.rows = np.zeros(slots, dtype)
        self.columns = {name: self.rows[name] for name in dtype.names or ()}
        self.weighted = False

    def put(self, first: int, flat: Batch) -> None:
        """Write rows numbered from `first`, at most as many as there are slots."""
        self.weighted |= flat.weights is not None
        for name, ring in self.columns.items():
            into_ring(ring, first, _column(flat, name))

    def gather(self, numbers: np.ndarray) -> dict[str, Column]:
        """The columns of these rows."""
        rows = self.rows.take(numbers % self.slots)
        columns: dict[str, Column] = {}
        for name in self.dtype.names or ():
            if name == "weights" and not self.weighted:
                continue
            tensor = torch.from_numpy(rows[name])
            column, dot, entry = name.partition(DOT)
            if dot:
                columns.setdefault(column, {})[entry] = tensor  # type: ignore[index]
            else:
                columns[name] = tensor
        return columns

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Rows start..stop as arrays of their own."""
        slots = np.arange(start, stop) % self.slots
        return {name: column[slots] for name, column in self.columns.items()}

    def write(self, start: int, stop: int, columns: dict[str, np.ndarray]) -> None:
        """What `read` gave, back in its place."""
        slots = np.arange(start, stop) % self.slots
        for name, column in self.columns.items():
            column[slots] = columns[name]

    def state_dict(self) -> State:
        """What is not in the rows."""
        return {"weighted": self.weighted}

    def load_state_dict(self, state: State) -> None:
        self.weighted = bool(state["weighted"])


def into_ring(ring: np.ndarray, first: int, rows: np.ndarray) -> None:
    """Write consecutive rows into a ring, around its end where they reach it."""
    start = first % len(ring)
    upto = min(start + len(rows), len(ring))
    ring[start:upto] = rows[: upto - start]
    if upto - start < len(rows):
        ring[: len(rows) - (upto - start)] = rows[upto - start :]


def row_dtype(spaces: Spaces) -> np.dtype:
    """The record of one transition."""
    fields: list[tuple] = []
    for column in ("observations", "next_observations"):
        fields += _fields(column, spaces.observation)
    return np.dtype([*fields, *outcome_fields(spaces)], align=True)


def outcome_fields(spaces: Spaces) -> list[tuple]:
    """What a record holds besides observations."""
    flags = [("rewards", "f4"), ("weights", "f4"), ("terminated", "?"), ("truncated", "?")]
    return [*_fields("actions", spaces.action), *flags]


def _fields(column: str, space: Space) -> list[tuple]:
    if isinstance(space, Dict):
        return [_field(f"{column}{DOT}{name}", entry) for name, entry in space.items()]
    return [_field(column, space)]


def _field(name: str, space: Leaf) -> tuple:
    return (name, space.dtype, space.shape)


def _column(batch: Batch, name: str) -> np.ndarray:
    if name == "weights" and batch.weights is None:
        return np.ones(len(batch), np.float32)
    column, dot, entry = name.partition(DOT)
    tensor = getattr(batch, column)
    return (tensor[entry] if dot else tensor).numpy()  # type: ignore[no-any-return]
