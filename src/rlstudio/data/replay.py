"""ReplayBuffer: a ring of transitions, one write per rollout, one gather per minibatch.

Rows live in one NumPy structured array, so a transition is one contiguous record: a gather touches one place per row
instead of one per column. Memory is committed only as rows arrive. Rows are numbered by arrival for ever; row n sits in
slot n % capacity. For checkpoints the live rows are cut into segments on a fixed grid of row numbers: a full segment
never changes, so it is written once, and where the cuts lie does not depend on when a checkpoint is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Segment, State
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces
from rlstudio.ops.returns import n_step

SEGMENT_ROWS = 16_384
DOT = "."  # joins a column and its entry: observations.camera


class ReplayBuffer:
    """`capacity` transitions of `num_envs` environments; `num_envs` consecutive rows are one vector step."""

    def __init__(self, spaces: Spaces, capacity: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.capacity = max(capacity // num_envs, 1) * num_envs
        self.dtype = row_dtype(spaces)
        self.rows = np.zeros(self.capacity, self.dtype)
        self.columns = {name: self.rows[name] for name in self.dtype.names or ()}
        self.added = 0
        self.weighted = False  # whether any row ever came with a weight: without, samples leave the column out

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @property
    def oldest(self) -> int:
        """Number of the oldest row still held."""
        return self.added - len(self)

    def add(self, rollout: Batch) -> None:
        """Append the rows of a rollout [T, B] (or of a sample [N]) in order of time; of too many, the newest stay."""
        flat = rollout.flatten()
        if len(flat) > self.capacity:
            self.added += len(flat) - self.capacity
            flat = flat.select(slice(len(flat) - self.capacity, None))
        count = len(flat)
        start = self.added % self.capacity
        upto = min(start + count, self.capacity)
        self.weighted |= flat.weights is not None
        for name, ring in self.columns.items():
            source = _column(flat, name)
            ring[start:upto] = source[: upto - start]
            if upto - start < count:
                ring[: count - (upto - start)] = source[upto - start :]
        self.added += count

    def sample(self, batch_size: int, generator: np.random.Generator, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """Uniform rows with replacement; with `horizon` > 1 each is an n-step transition.

        An n-step row starts at a row whose whole window is held, sums rewards up to the end of its episode, and carries
        the successor, flags and discount of the window's last live row.
        """
        window = (horizon - 1) * self.num_envs
        available = len(self) - window
        if available <= 0:
            raise ValueError(f"replay holds {len(self)} rows; windows of {horizon} steps need more than {window}")
        numbers = self.oldest + generator.integers(0, available, batch_size)
        if horizon == 1:
            return self._gather(numbers, discounts=_filled(batch_size, gamma))
        return self._windows(numbers, horizon, gamma)

    def _windows(self, numbers: np.ndarray, horizon: int, gamma: float) -> Batch:
        offsets = np.arange(horizon) * self.num_envs
        slots_KN = (numbers[None, :] + offsets[:, None]) % self.capacity
        rewards_KN = torch.from_numpy(self.columns["rewards"][slots_KN])
        dones_KN = torch.from_numpy(self.columns["terminated"][slots_KN] | self.columns["truncated"][slots_KN])
        sums_N, last_N, discounts_N = n_step(rewards_KN, dones_KN, gamma)
        first = self._gather(numbers)
        last = self._gather(numbers + last_N.numpy() * self.num_envs)
        columns = last.only(("next_observations", "terminated", "truncated"))
        if self.weighted:
            live_KN = np.arange(horizon)[:, None] <= last_N.numpy()
            columns["weights"] = torch.from_numpy(self.columns["weights"][slots_KN].min(0, initial=1.0, where=live_KN))
        return first.with_(rewards=sums_N, discounts=discounts_N, **columns)

    def _gather(self, numbers: np.ndarray, **columns: Column) -> Batch:
        rows = self.rows.take(numbers % self.capacity)
        for name in self.dtype.names or ():
            if name == "weights" and not self.weighted:
                continue
            tensor = torch.from_numpy(rows[name])
            column, dot, entry = name.partition(DOT)
            if dot:
                columns.setdefault(column, {})[entry] = tensor  # type: ignore[index]
            else:
                columns[name] = tensor
        return Batch._of(columns, 1)

    # -- state ------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterable[tuple[int, int]]:
        """Live row numbers cut on the grid: a partial first piece, full segments, a partial last one."""
        start = self.oldest
        while start < self.added:
            stop = min((start // SEGMENT_ROWS + 1) * SEGMENT_ROWS, self.added)
            yield start, stop
            start = stop

    def _read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        slots = np.arange(start, stop) % self.capacity
        return {name: column[slots] for name, column in self.columns.items()}

    def state_dict(self) -> State:
        segments, ends = [], {}
        for start, stop in self._pieces():
            if stop - start == SEGMENT_ROWS:
                segments.append(Segment(f"rows-{start:015d}", lambda a=start, b=stop: self._read(a, b)))  # type: ignore[misc]
            else:
                ends[f"{start:015d}"] = self._read(start, stop)
        counts = {"added": self.added, "capacity": self.capacity, "weighted": self.weighted}
        return {**counts, "ends": ends, "segments": segments}

    def load_state_dict(self, state: State) -> None:
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"checkpoint holds a replay of {state['capacity']} rows, this one has {self.capacity}")
        self.added = int(state["added"])
        self.weighted = bool(state["weighted"])
        ends, segments = state["ends"], iter(state["segments"])
        for start, stop in self._pieces():
            columns = next(segments).columns() if stop - start == SEGMENT_ROWS else ends[f"{start:015d}"]
            slots = np.arange(start, stop) % self.capacity
            for name, column in self.columns.items():
                column[slots] = columns[name]


def row_dtype(spaces: Spaces) -> np.dtype:
    """The record of one transition."""
    fields: list[tuple] = []
    for column in ("observations", "next_observations"):
        fields += _fields(column, spaces.observation)
    fields += _fields("actions", spaces.action)
    fields += [("rewards", "f4"), ("weights", "f4"), ("terminated", "?"), ("truncated", "?")]
    return np.dtype(fields, align=True)


def _fields(column: str, space: Space) -> list[tuple]:
    if isinstance(space, Dict):
        return [_field(f"{column}{DOT}{name}", entry) for name, entry in space.items()]
    return [_field(column, space)]


def _field(name: str, space: Leaf) -> tuple:
    return (name, space.dtype, space.shape)


def _column(batch: Batch, name: str) -> np.ndarray:
    if name == "weights" and batch.weights is None:
        return _filled(len(batch), 1.0).numpy()
    column, dot, entry = name.partition(DOT)
    tensor = getattr(batch, column)
    return (tensor[entry] if dot else tensor).numpy()  # type: ignore[no-any-return]


@cache
def _filled(rows: int, value: float) -> torch.Tensor:
    """The same constant column again and again; nobody writes into a Batch."""
    return torch.full((rows,), value)
