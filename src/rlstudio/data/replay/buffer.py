"""ReplayBuffer: a ring of transitions, one write per rollout, one gather per minibatch.

Rows are numbered by arrival for ever; a store (`rows.py`, `frames.py`) keeps the newest of them. For
checkpoints these are cut into segments on a fixed grid of row numbers: a full segment never changes, so it is written
once, and where the cuts lie does not depend on when a checkpoint is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Segment, State
from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.replay.frames import FrameStore, frame_dtype, stores_frames
from rlstudio.data.replay.rows import RowStore, row_dtype
from rlstudio.ops.returns import n_step

SEGMENT_ROWS = 16_384
SEGMENT_BYTES = 2**25  # segments of large rows have fewer of them: their last, partial one is written every time


class ReplayBuffer:
    """`capacity` transitions of `num_envs` environments; `num_envs` consecutive rows are one vector step."""

    def __init__(self, spaces: Spaces, capacity: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.capacity = max(capacity // num_envs, 1) * num_envs
        frames = stores_frames(spaces)
        self.store = (
            FrameStore(spaces, self.capacity, num_envs) if frames else RowStore(row_dtype(spaces), self.capacity)
        )
        self.segment_rows = _segment_rows(row_bytes(spaces))
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @property
    def oldest(self) -> int:
        """Number of the oldest row still held."""
        return self.added - len(self)

    def add(self, rollout: Batch) -> None:
        """Append the rows of a rollout [T, B] (or of a sample [N]) in order of time; of too many, the newest stay."""
        flat = rollout.flatten()
        for start in range(0, len(flat), self.capacity):
            part = flat if len(flat) <= self.capacity else flat.select(slice(start, start + self.capacity))
            self.store.put(self.added, part)
            self.added += len(part)

    def sample(self, batch_size: int, generator: np.random.Generator, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """Uniform rows with replacement; with `horizon` > 1 each is an n-step transition."""
        window = (horizon - 1) * self.num_envs
        available = len(self) - window
        if available <= 0:
            raise ValueError(f"replay holds {len(self)} rows; windows of {horizon} steps need more than {window}")
        return self.at(self.oldest + generator.integers(0, available, batch_size), horizon, gamma)

    def at(self, numbers: np.ndarray, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """The rows of these numbers; column `rows` says which they are.

        An n-step row starts at a row whose whole window is held, sums rewards up to the end of its episode, and carries
        the successor, flags and discount of the window's last live row.
        """
        columns = self.store.gather(numbers)
        columns["rows"] = torch.from_numpy(numbers)
        if horizon == 1:
            columns["discounts"] = _filled(len(numbers), gamma)
        else:
            columns.update(self._window_ends(numbers, horizon, gamma))
        return Batch._of(columns, 1)

    def all(self) -> Batch:
        """Every row held, in order."""
        return self.at(np.arange(self.oldest, self.added))

    def _window_ends(self, numbers: np.ndarray, horizon: int, gamma: float) -> dict[str, Column]:
        store = self.store
        offsets = np.arange(horizon) * self.num_envs
        slots_KN = (numbers[None, :] + offsets[:, None]) % store.slots
        rewards_KN = torch.from_numpy(store.columns["rewards"][slots_KN])
        dones_KN = torch.from_numpy(store.columns["terminated"][slots_KN] | store.columns["truncated"][slots_KN])
        sums_N, last_N, discounts_N = n_step(rewards_KN, dones_KN, gamma)
        last = store.gather(numbers + last_N.numpy() * self.num_envs)
        ends = {name: last[name] for name in ("next_observations", "terminated", "truncated")}
        if store.weighted:
            live_KN = np.arange(horizon)[:, None] <= last_N.numpy()
            ends["weights"] = torch.from_numpy(store.columns["weights"][slots_KN].min(0, initial=1.0, where=live_KN))
        return {**ends, "rewards": sums_N, "discounts": discounts_N}

    def windows(self, batch_size: int, generator: np.random.Generator, horizon: int) -> Batch:
        """Uniform pieces of `horizon` successive rows of one environment, [horizon, batch_size]. Rows after the end of
        the episode that a piece begins in weigh nothing, and with a bad row none of them counts."""
        span = (horizon - 1) * self.num_envs
        available = len(self) - span
        if available <= 0:
            raise ValueError(f"replay holds {len(self)} rows; windows of {horizon} steps need more than {span}")
        first_N = self.oldest + generator.integers(0, available, batch_size)
        numbers_HN = first_N + np.arange(horizon)[:, None] * self.num_envs
        flat = Batch._of({**self.store.gather(numbers_HN.ravel()), "rows": torch.from_numpy(numbers_HN.ravel())}, 1)
        dones_HN = flat.dones.view(horizon, batch_size).int()
        live_HN = (dones_HN.cumsum(0) == dones_HN).float()
        if flat.weights is not None:
            weights_HN = flat.weights.view(horizon, batch_size)
            live_HN = live_HN * torch.where(live_HN > 0, weights_HN, 1.0).amin(0)
        windows = flat._map(lambda column: column.view(horizon, batch_size, *column.shape[1:]), 2)
        return windows.with_(weights=live_HN)

    # -- state ------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterable[tuple[int, int]]:
        """Numbers of the stored rows cut on the grid: a partial first piece, full segments, a partial last one."""
        start = max(self.added - self.store.slots, 0)
        while start < self.added:
            stop = min((start // self.segment_rows + 1) * self.segment_rows, self.added)
            yield start, stop
            start = stop

    def state_dict(self) -> State:
        segments, ends = [], {}
        for start, stop in self._pieces():
            if stop - start == self.segment_rows:
                segments.append(Segment(f"rows-{start:015d}", lambda a=start, b=stop: self.store.read(a, b)))  # type: ignore[misc]
            else:
                ends[f"{start:015d}"] = self.store.read(start, stop)
        counts = {"added": self.added, "capacity": self.capacity, "ends": ends, "segments": segments}
        return {**self.store.state_dict(), **counts}

    @staticmethod
    def without_rows(state: State) -> State:
        """A state of this buffer as if its rows had never been added."""
        return {**state, "added": 0, "ends": {}, "segments": []}

    def load_state_dict(self, state: State) -> None:
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"checkpoint holds a replay of {state['capacity']} rows, this one has {self.capacity}")
        self.added = int(state["added"])
        self.store.load_state_dict(state)
        ends, segments = state["ends"], iter(state["segments"])
        for start, stop in self._pieces():
            columns = next(segments).columns() if stop - start == self.segment_rows else ends[f"{start:015d}"]
            self.store.write(start, stop, columns)


def row_bytes(spaces: Spaces) -> int:
    """What one row of a full buffer takes. With frames stored once, the last frame of each episode comes on top."""
    if stores_frames(spaces):
        assert isinstance(spaces.observation, Box)
        return frame_dtype(spaces).itemsize + spaces.observation.size // spaces.observation.shape[0]
    return row_dtype(spaces).itemsize


def _segment_rows(size: int) -> int:
    """As many rows as fit into a segment's bytes: a power of two, from 64 on."""
    fitting = max(SEGMENT_BYTES // size, 64)
    return min(1 << (fitting.bit_length() - 1), SEGMENT_ROWS)


@cache
def _filled(rows: int, value: float) -> torch.Tensor:
    """A constant column, made once and shared: a Batch is never written to."""
    return torch.full((rows,), value)
