"""Numbers of a user's own code: `rlstudio.log("distance", 3.2)`, anywhere in the process that trains.

    own/NAME = mean of what was logged under NAME in the epoch

What is logged while a run is evaluated is left out: it would mix the two. What an epoch under way has logged is part of
its checkpoint, so a run that goes on reports the same means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rlstudio.core.errors import UserError

GROUP = "own/"
MOST_NAMES = 256
_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
LONGEST_NAME = 80


class OwnMetrics:
    """One for each process, since the code that logs has nothing else to hold on to."""

    def __init__(self) -> None:
        self.refusal: str | None = None  # why nothing that is logged in this process can reach a run
        self._sums: dict[str, tuple[float, int]] = {}
        self._paused = 0

    def log(self, name: str, value: float) -> None:
        """See `log` below."""
        if self.refusal is not None:
            raise UserError(f"rlstudio.log({name!r}): {self.refusal}")
        if self._paused:
            return
        total, count = self._sums.get(name, (0.0, 0))
        if not count:
            self._check(name)
        try:
            self._sums[name] = total + float(value), count + 1
        except (TypeError, ValueError) as error:
            raise UserError(f"rlstudio.log({name!r}): expected a number, got {value!r:.80}") from error

    def _check(self, name: str) -> None:
        if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            raise UserError(f"rlstudio.log({name!r:.100}): a name is letters, digits and _.-/, at most {LONGEST_NAME}")
        if len(self._sums) >= MOST_NAMES:
            raise UserError(f"rlstudio.log({name!r}): more than {MOST_NAMES} names; put the number into the value")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is logged within goes nowhere."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def take(self) -> dict[str, float]:
        """The metrics of the epoch that ends, by name; the next one begins."""
        sums, self._sums = self._sums, {}
        return {f"{GROUP}{name}": sums[name][0] / sums[name][1] for name in sorted(sums)}

    def open_sums(self) -> dict[str, list[float]]:
        """What the epoch under way has logged, for a checkpoint."""
        return {name: [total, count] for name, (total, count) in sorted(self._sums.items())}

    def add(self, sums: dict[str, list[float]]) -> None:
        """What another process has logged in the same epoch of the same run."""
        for name, (more, times) in sums.items():
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = total + float(more), count + int(times)

    def start(self, sums: dict[str, list[float]]) -> None:
        """Begin a run, or go on with these sums."""
        self._sums = {name: (float(total), int(count)) for name, (total, count) in sums.items()}


OWN_METRICS = OwnMetrics()


def log(name: str, value: float) -> None:
    """Add a number to this epoch's mean of the metric `own/NAME`, in the run that trains in this process. Outside a run
    it does nothing."""
    OWN_METRICS.log(name, value)
