"""What an index holds at one moment: it does not change while the run goes on."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstudio.experiment.metrics.indexed.downsampling import Floats, Positions, kept_points
from rlstudio.experiment.metrics.indexed.parsing import Rows

Axis = Literal["env_steps", "time"]
Kind = Literal["value", "clock"]


@dataclass(frozen=True)
class MetricName:
    name: str
    kind: Kind  # "clock": it depends on the clock, so that two equal runs differ in it
    last: float
    count: int


class MetricPoints(NamedTuple):
    steps: Positions
    values: Floats
    clock: Floats  # when each was measured: seconds since 1970


class MetricSeries(NamedTuple):
    points: dict[str, MetricPoints]
    complete: bool  # the whole curves, in the place of what was there; otherwise only what came since the cursor
    next: str  # the cursor to go on from


class Range(NamedTuple):
    """From and to, both included, of environment steps or of seconds since 1970."""

    start: float | None = None
    end: float | None = None
    axis: Axis = "env_steps"


EVERYWHERE = Range()


@dataclass(frozen=True, eq=False)
class MetricSnapshot:
    rows: Rows
    codes: dict[str, int]
    clocks: frozenset[str]
    damaged: int
    """Lines of the files that are not what was written; they are left out."""

    @property
    def last_step(self) -> int:
        return int(self.rows["step"].max()) if len(self.rows) else 0

    def names(self) -> list[MetricName]:
        """In the order in which they first came."""
        counts = np.bincount(self.rows["name"], minlength=len(self.codes))
        last = np.zeros(len(self.codes), np.int64)
        last[self.rows["name"]] = np.arange(len(self.rows))  # of several, the last one stays
        return [
            MetricName(name, "clock" if name in self.clocks else "value", float(self.rows["value"][last[code]]), count)
            for (name, code), count in zip(self.codes.items(), counts.tolist(), strict=True)
            if count
        ]

    def points(self, name: str) -> MetricPoints:
        """All points of a metric, in the order in which they were written; none where it has not been measured."""
        return _points(self._of(name))

    def series(
        self, names: Collection[str] | None = None, *, points: int | None = None, within: Range = EVERYWHERE
    ) -> MetricSeries:
        """The curves of these metrics (or of all), those that have points; each with at most `points` of them."""
        every = {name: self._of(name) for name in (self.codes if names is None else names)}
        curves = {name: _points(_reduced(rows, points, within)) for name, rows in every.items() if len(rows)}
        return MetricSeries(curves, True, self.cursor)

    def since(self, cursor: str, names: Collection[str] | None = None, *, points: int | None = None) -> MetricSeries:
        """What came after a cursor; the whole curves where the run was cut back behind it, or where more came than so
        many points."""
        begin = self._place(cursor)
        if begin is not None:
            new = MetricSnapshot(self.rows[begin:], self.codes, self.clocks, 0).series(names).points
            if points is None or all(len(curve.steps) <= points for curve in new.values()):
                return MetricSeries(new, False, self.cursor)
        return self.series(names, points=points)

    @property
    def cursor(self) -> str:
        """Where these rows end: how many, and a checksum of the last."""
        return f"{len(self.rows)}.{self._checksum(len(self.rows)):08x}"

    def _place(self, cursor: str) -> int | None:
        """The number of rows that a cursor stands behind; None where the rows there are others."""
        count, _, checksum = cursor.partition(".")
        if not (count.isascii() and count.isdigit() and len(count) < 19 and int(count) <= len(self.rows)):
            return None
        return int(count) if checksum == f"{self._checksum(int(count)):08x}" else None

    def _checksum(self, count: int) -> int:
        """By the time in it, a row that was written again after a cut is another one."""
        return zlib.crc32(self.rows[count - 1].tobytes()) if count else 0

    def _of(self, name: str) -> Rows:
        code = self.codes.get(name)
        return self.rows[:0] if code is None else self.rows[self.rows["name"] == code]


def _reduced(rows: Rows, points: int | None, within: Range) -> Rows:
    positions: NDArray[np.int64] = np.arange(len(rows), dtype=np.int64)
    axis = rows["ts" if within.axis == "time" else "step"]
    if within.start is not None or within.end is not None:
        low = -np.inf if within.start is None else within.start
        high = np.inf if within.end is None else within.end
        positions = np.flatnonzero((axis >= low) & (axis <= high))
    if points is None or not len(positions):
        return rows[positions]
    return rows[positions[kept_points(rows["value"][positions], positions, points)]]


def _points(rows: Rows) -> MetricPoints:
    return MetricPoints(rows["step"].copy(), rows["value"].copy(), rows["ts"].copy())
