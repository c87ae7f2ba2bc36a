"""ReplayBuffer: a ring of transitions, one write per rollout, one gather per minibatch.

Rows are numbered for ever (`numbering.py`); a store (`rows.py`, `frames.py`) keeps the newest of them. For
checkpoints these are cut into segments on a fixed grid of row numbers: a full segment never changes, so it is written
once, and where the cuts lie does not depend on when a checkpoint is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Segment, State
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.replay.frames import FrameStore, frame_dtype, stores_frames
from rlstudio.data.replay.numbering import Numbering
from rlstudio.data.replay.rows import RowStore, row_dtype
from rlstudio.ops.returns import n_step

SEGMENT_ROWS = 16_384
SEGMENT_BYTES = 2**25  # segments of large rows have fewer of them: their last, partial one is written every time


class ReplayBuffer:
    """`capacity` transitions of `num_envs` environments, which may come in parts and at different speeds. `name` tells
    its segments from those of another buffer of the run."""

    def __init__(self, spaces: Spaces, capacity: int, num_envs: int, name: str = "") -> None:
        self.name = name
        self.num_envs = num_envs
        self.numbering = Numbering(capacity, num_envs)
        self.capacity = self.numbering.capacity
        frames = stores_frames(spaces)
        self.store = (
            FrameStore(spaces, self.capacity, num_envs)
            if frames
            else RowStore(row_dtype(spaces), self.capacity, num_envs)
        )
        # Without the infos: a fork that keeps other keys must find the segments where its parent cut them.
        self.segment_rows = _segment_rows(row_bytes(replace(spaces, infos=())))
        self.erasures = 0

    def __len__(self) -> int:
        return len(self.numbering)

    @property
    def counts(self) -> np.ndarray:
        return self.numbering.counts

    def held_between(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        first = np.maximum(first, self.numbering.oldest())
        return self.numbering.between(first, np.maximum(last, first))

    @property
    def added(self) -> int:
        """Rows ever added."""
        return self.numbering.added

    def add(self, rollout: Batch, column: int = 0) -> None:
        """Append the rows of a rollout [T, B] of as many environments, from this one of ours on; of too many, the
        newest stay, and rows without a transition (not `active`) are left out. A sample [N] is of all in turn."""
        if rollout.lead == 1:
            rollout = rollout.rolled(self.num_envs)
        if "active" in rollout:
            self._add_active(rollout, column)
            return
        envs, depth = np.arange(column, column + rollout.shape[1]), self.numbering.depth
        for start in range(0, len(rollout), depth):
            whole = len(rollout) <= depth
            self._put(rollout if whole else rollout.select(slice(start, start + depth)), envs)

    def _add_active(self, rollout: Batch, column: int) -> None:
        if isinstance(self.store, FrameStore):
            raise Incompatible(
                "env.wrappers: FrameStackObservation with agents that wait for a turn: the frames between their turns"
                " are not kept; leave it out"
            )
        for t, active in enumerate(rollout.active.numpy()):
            envs = active.nonzero()[0]
            if len(envs):
                self._put(rollout.select(slice(t, t + 1)).pick(torch.from_numpy(envs)), column + envs)

    def _put(self, rollout: Batch, envs: np.ndarray) -> None:
        """Steps of these environments, at most as many as are held of one."""
        steps, numbering = len(rollout), self.numbering
        first, everywhere = numbering.counts[envs] * self.num_envs + envs, len(envs) == self.num_envs
        numbers_TB = first + np.arange(steps)[:, None] * self.num_envs
        self.store.put(numbers_TB, rollout, consecutive=everywhere and numbering.even)
        if everywhere:
            numbering.extend(steps)
        else:
            numbering.extend_by(np.bincount(envs, minlength=self.num_envs) * steps)

    def sample(self, batch_size: int, generator: np.random.Generator, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """Uniform rows with replacement; with `horizon` > 1 each is an n-step transition."""
        return self.at(self.numbering.draw(batch_size, generator, horizon), horizon, gamma)

    def at(self, numbers: np.ndarray, horizon: int = 1, gamma: float = 1.0) -> Batch:
        """The rows of these numbers; column `rows` says which they are.

        An n-step row starts at a row whose whole window is held, sums rewards up to the end of its episode, and carries
        the successor, flags, info and discount of the window's last live row.
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
        return self.at(self.numbering.held())

    def erase(self, numbers: np.ndarray) -> None:
        """The rows of these numbers become zeros that weigh nothing."""
        self.store.erase(numbers)
        self.erasures += 1  # the segments have other content from now on, hence other names

    def _window_ends(self, numbers: np.ndarray, horizon: int, gamma: float) -> dict[str, Column]:
        store = self.store
        offsets = np.arange(horizon) * self.num_envs
        slots_KN = (numbers[None, :] + offsets[:, None]) % store.slots
        rewards_KN = torch.from_numpy(store.columns["rewards"][slots_KN])
        dones_KN = torch.from_numpy(store.columns["terminated"][slots_KN] | store.columns["truncated"][slots_KN])
        sums_N, last_N, discounts_N = n_step(rewards_KN, dones_KN, gamma)
        last = store.gather(numbers + last_N.numpy() * self.num_envs)
        ends: dict[str, Column] = {}
        for name in ("next_observations", "terminated", "truncated", "info"):
            if name in last:
                ends[name] = last[name]
        weights = last.get("weights")  # of the last row: its successor may be lost
        if store.weighted:
            live_KN = np.arange(horizon)[:, None] <= last_N.numpy()
            least = torch.from_numpy(store.columns["weights"][slots_KN].min(0, initial=1.0, where=live_KN))
            weights = least if weights is None else torch.minimum(least, weights)  # type: ignore[arg-type]
        if weights is not None:
            ends["weights"] = weights
        return {**ends, "rewards": sums_N, "discounts": discounts_N}

    def windows(self, batch_size: int, generator: np.random.Generator, horizon: int) -> Batch:
        """Uniform pieces of `horizon` successive rows of one environment, [horizon, batch_size]. Rows after the end of
        the episode that a piece begins in weigh nothing, and with a bad row none of them counts."""
        first_N = self.numbering.draw(batch_size, generator, horizon)
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

    def _pieces(self) -> Iterable[tuple[int, int, bool]]:
        """Numbers of the stored rows cut on the grid: a partial first piece, full segments, a partial last one; and
        whether the piece is full for good: in a piece that some environment has not reached its older rows still sit.
        """
        end, complete = self.numbering.end, self.numbering.least * self.num_envs
        start = max(end - self.store.slots, 0)
        while start < end:
            stop = min((start // self.segment_rows + 1) * self.segment_rows, end)
            yield start, stop, stop - start == self.segment_rows and stop <= complete
            start = stop

    def _segment_name(self, start: int) -> str:
        return f"{self.name}rows-{start:015d}" + (f"-{self.erasures}" if self.erasures else "")

    def state_dict(self) -> State:
        segments, ends = [], {}
        for start, stop, full in self._pieces():
            if full:
                segments.append(Segment(self._segment_name(start), partial(self.store.read, start, stop)))
            else:
                ends[f"{start:015d}"] = self.store.read(start, stop)
        counts: State = {} if self.numbering.even else {"counts": self.numbering.counts}
        counts |= {"erasures": self.erasures} if self.erasures else {}
        facts = {"added": self.added, "capacity": self.capacity, "ends": ends, "segments": segments}
        return {**self.store.state_dict(), **counts, **facts}

    def load_state_dict(self, state: State) -> None:
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"checkpoint holds a replay of {state['capacity']} rows, this one has {self.capacity}")
        counts = state.get("counts", np.full(self.num_envs, int(state["added"]) // self.num_envs))
        self.numbering.set(np.asarray(counts))
        self.store.load_state_dict(state)
        self.erasures = int(state.get("erasures", 0))
        ends, segments = state["ends"], iter(state["segments"])
        for start, stop, full in self._pieces():
            self.store.write(start, stop, next(segments).columns() if full else ends[f"{start:015d}"])


def without_rows(state: State) -> State:
    """A state of a buffer as if its rows had never been added."""
    kept = {name: value for name, value in state.items() if name != "counts"}
    return {**kept, "added": 0, "ends": {}, "segments": []}


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
