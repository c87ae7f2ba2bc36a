"""Numbers of the rows in a replay buffer: which there are, which follow each other, where they sit in a ring.

Row number k * num_envs + e is the k-th row of environment e, for ever. So the next row of an environment is `num_envs`
further on, whoever collects it and however far the other environments are: workers at different speeds and agents that
act at different steps need no rings of their own. Where all environments have equally many rows, numbers are simply
counted up as rows arrive.
"""

from __future__ import annotations

import numpy as np


class Numbering:
    """The newest `depth` rows of each environment are held."""

    def __init__(self, capacity: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.depth = max(capacity // num_envs, 1)
        self.capacity = self.depth * num_envs
        self.counts = np.zeros(num_envs, np.int64)  # rows that each environment ever had
        self.least = self.most = 0  # of the counts

    @property
    def even(self) -> bool:
        """Whether every environment has equally many rows."""
        return self.least == self.most

    @property
    def added(self) -> int:
        """Rows ever."""
        return self.most * self.num_envs if self.even else int(self.counts.sum())

    @property
    def end(self) -> int:
        """All rows so far have smaller numbers."""
        return self.most * self.num_envs

    def __len__(self) -> int:
        """Rows held."""
        if self.even:
            return min(self.most, self.depth) * self.num_envs
        return int(np.minimum(self.counts, self.depth).sum())

    def extend(self, rows: int) -> None:
        """So many new rows in every environment."""
        self.counts += rows
        self.least += rows
        self.most += rows

    def extend_by(self, rows_B: np.ndarray) -> None:
        """New rows, so many in each environment."""
        self.set(self.counts + rows_B)

    def set(self, counts: np.ndarray) -> None:
        self.counts = np.array(counts, np.int64)
        self.least, self.most = int(self.counts.min()), int(self.counts.max())

    def oldest(self) -> np.ndarray:
        """How many rows of each environment are not held any more."""
        return np.maximum(self.counts - self.depth, 0)

    def draw(self, count: int, generator: np.random.Generator, window: int = 1) -> np.ndarray:
        """Uniform numbers, with replacement, of rows from which `window` successive ones are held."""
        if self.even:
            available = len(self) - (window - 1) * self.num_envs
            self._check(available, window)
            first = (self.most - min(self.most, self.depth)) * self.num_envs
            return np.asarray(first + generator.integers(0, available, count))
        each = np.maximum(np.minimum(self.counts, self.depth) - (window - 1), 0)
        ends = np.cumsum(each)
        self._check(int(ends[-1]), window)
        places = generator.integers(0, ends[-1], count)
        envs = np.searchsorted(ends, places, side="right")
        steps: np.ndarray = self.oldest()[envs] + places - (ends - each)[envs]
        return steps * self.num_envs + envs

    def _check(self, available: int, window: int) -> None:
        if available <= 0:
            raise ValueError(f"replay holds {len(self)} rows; windows of {window} steps need more in each environment")

    def between(self, first_B: np.ndarray, last_B: np.ndarray) -> np.ndarray:
        """The numbers of rows first, first + 1, ... last - 1 of each environment, in order."""
        first, last = first_B * self.num_envs, last_B * self.num_envs
        if (first_B == first_B[0]).all() and (last_B == last_B[0]).all():
            return np.arange(first[0], last[0])
        ranges = [np.arange(start, stop, self.num_envs) for start, stop in zip(first, last, strict=True)]
        return np.sort(np.concatenate([numbers + env for env, numbers in enumerate(ranges)]))

    def held(self) -> np.ndarray:
        """The numbers of all rows held, in order."""
        return self.between(self.oldest(), self.counts)

    def holds(self, numbers: np.ndarray) -> np.ndarray:
        """Which of these rows are still held."""
        if self.even:
            return numbers >= (self.most - min(self.most, self.depth)) * self.num_envs
        return np.asarray(numbers // self.num_envs >= self.oldest()[numbers % self.num_envs])

    def newest_at(self, slots: np.ndarray, ring: int) -> np.ndarray:
        """The newest row that sits in each of these slots of a ring of so many."""
        last = self.end - 1 if self.even else (self.counts[slots % self.num_envs] - 1) * self.num_envs
        if not self.even:
            last = last + slots % self.num_envs
        return last - (last - slots) % ring
