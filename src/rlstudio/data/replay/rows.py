"""RowStore: where a replay buffer keeps its transitions. Row number n sits in slot n % slots.

Rows live in one NumPy structured array, so a transition is one contiguous record: a gather touches one place per row
instead of one per column. Memory is committed only as rows arrive.
"""

from __future__ import annotations

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Array, State
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces

DOT = "."  # joins a column and its entry: observations.camera
INFO = f"info{DOT}"
KEPT = ("terminated", "truncated", "last", "age")
"""What an erased row keeps: its neighbours are read by it."""


class RowStore:
    """Whole transitions. `weighted`: whether any row ever came with a weight; without, samples leave the column out."""

    def __init__(self, dtype: np.dtype, slots: int, num_envs: int) -> None:
        self.dtype = dtype
        self.slots = slots
        self.num_envs = num_envs
        self.rows = np.zeros(slots, dtype)
        self.columns = {name: self.rows[name] for name in dtype.names or ()}
        # The column of a Batch that a field is of, and its entry where that column is a dict.
        self._parts: dict[str, tuple[str, str]] = {}
        for name in self.columns:
            column, _, entry = name.partition(DOT)
            self._parts[name] = column, entry
        self.weighted = False

    def put(self, numbers_TB: np.ndarray, rollout: Batch, consecutive: bool = False) -> None:
        """Write the rows of these numbers, successive ones of each environment, at most as many as there are slots.
        `consecutive`: row by row each number is the one before plus 1."""
        flat, place = rollout.flatten(), self.place(numbers_TB, consecutive)
        self.weighted |= flat.weights is not None
        absent = np.ones(numbers_TB.size, np.float32) if flat.weights is None else None
        pieces = ring_pieces(place, numbers_TB.size, self.slots)
        for name, ring in self.columns.items():
            column, entry = self._parts[name]
            rows: Array = absent if absent is not None and name == "weights" else flat.array(column)
            part = rows[entry] if isinstance(rows, dict) else rows
            for there, here in pieces:
                ring[there] = part[here]

    def place(self, numbers_TB: np.ndarray, consecutive: bool) -> int | np.ndarray:
        """Where these rows go: from the first number on if they are consecutive, else the slot of each."""
        return int(numbers_TB[0, 0]) if consecutive else numbers_TB.ravel() % self.slots

    def gather(self, numbers: np.ndarray) -> dict[str, Column]:
        """The columns of these rows."""
        rows = self.rows.take(numbers % self.slots)
        columns: dict[str, Column] = {}
        for name in self.columns:
            if name == "weights" and not self.weighted:
                continue
            tensor = torch.from_numpy(rows[name])
            column, entry = self._parts[name]
            if column == name:
                columns[name] = tensor
            else:
                columns.setdefault(column, {})[entry] = tensor  # type: ignore[index]
        return columns

    def erase(self, numbers: np.ndarray) -> None:
        """Zeros in place of these rows; where their episodes end stays known."""
        slots = numbers % self.slots
        for name, column in self.columns.items():
            if name not in KEPT:
                column[slots] = 0
        self.weighted = True

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Rows start..stop as arrays of their own."""
        slots = np.arange(start, stop) % self.slots
        return {name: column[slots] for name, column in self.columns.items()}

    def write(self, start: int, stop: int, columns: dict[str, np.ndarray]) -> None:
        """What `read` gave, back in its place."""
        slots = np.arange(start, stop) % self.slots
        for name, column in self.columns.items():
            # A key of the infos that is kept only since then, as a fork may: those rows gave no number.
            column[slots] = np.nan if name.startswith(INFO) and name not in columns else columns[name]

    def state_dict(self) -> State:
        """What is not in the rows."""
        return {"weighted": self.weighted}

    def load_state_dict(self, state: State) -> None:
        self.weighted = bool(state["weighted"])


def into_ring(ring: np.ndarray, place: int | np.ndarray, rows: np.ndarray) -> None:
    """Write rows into a ring: into these slots, or one after the other from a number on and around its end."""
    for there, here in ring_pieces(place, len(rows), len(ring)):
        ring[there] = rows[here]


def ring_pieces(place: int | np.ndarray, count: int, slots: int) -> list[tuple[slice | np.ndarray, slice]]:
    """Where so many rows go in a ring of `slots`, and which of them go there: a second piece only around its end."""
    if isinstance(place, np.ndarray):
        return [(place, slice(None))]
    start = place % slots
    before_end = min(count, slots - start)
    pieces: list[tuple[slice | np.ndarray, slice]] = [(slice(start, start + before_end), slice(before_end))]
    if before_end < count:
        pieces.append((slice(count - before_end), slice(before_end, None)))
    return pieces


Field = tuple[str, str] | tuple[str, str, tuple[int, ...]]
"""Name, kind and shape of a part of a record."""


def row_dtype(spaces: Spaces) -> np.dtype:
    """The record of one transition."""
    fields: list[Field] = []
    for column in ("observations", "next_observations"):
        fields += _fields(column, spaces.observation)
    return np.dtype([*fields, *outcome_fields(spaces)], align=True)


def outcome_fields(spaces: Spaces) -> list[Field]:
    """What a record holds besides observations."""
    flags: list[Field] = [("rewards", "f4"), ("weights", "f4"), ("terminated", "?"), ("truncated", "?")]
    infos: list[Field] = [(f"{INFO}{key}", "f4") for key in spaces.infos]
    return [*_fields("actions", spaces.action), *flags, *infos]


def _fields(column: str, space: Space) -> list[Field]:
    if isinstance(space, Dict):
        return [_field(f"{column}{DOT}{name}", entry) for name, entry in space.items()]
    return [_field(column, space)]


def _field(name: str, space: Leaf) -> Field:
    return (name, space.dtype, space.shape)
