"""The metrics of one run in memory: read once, then only what was added.

    index = MetricIndex(run_dir)
    index.snapshot().series(["train/loss"], points=500)

It fits as long as each metric file is the same one (device, inode), is not shorter, and has the same bytes before the
place that was read up to. A run that goes on from a checkpoint gets its files cut back: they are then read anew.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from rlstudio.experiment.metrics.indexed.parsing import ROW, Names, Rows, parse_lines
from rlstudio.experiment.metrics.indexed.snapshot import MetricSnapshot
from rlstudio.experiment.metrics.reader import opened_files
from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import next_line
from rlstudio.storage.writers import CHUNK

AT_ONCE = 65_536
"""Bytes that are parsed together: what becomes of a megabyte leaves the cache and takes a fifth longer."""

COMPARED = 4096
"""Bytes before the place reached that are compared each time."""


class FilePlace(NamedTuple):
    """How far a metric file was read."""

    device: int
    inode: int
    size: int  # bytes read: whole lines
    tail: int  # checksum of the last `COMPARED` of them


class MetricIndex:
    def __init__(self, run_dir: Path) -> None:
        self._folder = Folder(run_dir)
        self._lock = Lock()
        self._clear()

    def _clear(self) -> None:
        self._places: tuple[FilePlace, ...] = ()
        self._names = Names()
        self._damaged = 0
        self._buffer: Rows = np.empty(0, ROW)
        self._count = 0

    def snapshot(self) -> MetricSnapshot:
        """The metrics as they are now."""
        return self.read()[0]

    def read(self) -> tuple[MetricSnapshot, tuple[FilePlace, ...]]:
        """The metrics as they are now, and how far that is in each file."""
        with self._lock, ExitStack() as stack:
            files = list(opened_files(self._folder, stack).values())
            if not fits(self._places, files):
                self._clear()
            for number, file in enumerate(files):
                self._read_on(number, file)
            names = self._names
            return MetricSnapshot(self._rows, dict(names.codes), frozenset(names.clocks), self._damaged), self._places

    def restore(self, files: Sequence[BufferedReader], sizes: Sequence[int], snapshot: MetricSnapshot) -> None:
        """Take what an earlier index had read of these files, so many bytes of each. That they still begin with those
        is the caller's to know."""
        with self._lock:
            self._places = tuple(_place(file, size) for file, size in zip(files, sizes, strict=False))
            self._names, self._damaged = Names(snapshot.codes, snapshot.clocks), snapshot.damaged
            self._buffer, self._count = snapshot.rows, len(snapshot.rows)

    @property
    def _rows(self) -> Rows:
        return self._buffer[: self._count]

    def _read_on(self, number: int, file: BufferedReader) -> None:
        size = self._places[number].size if number < len(self._places) else 0
        file.seek(size)
        while lines := _next_lines(file):
            parsed = parse_lines(lines, self._names)
            self._append(parsed.rows)
            self._damaged += parsed.damaged
        place = _place(file, file.tell())
        self._places = (*self._places[:number], place, *self._places[number + 1 :])

    def _append(self, rows: Rows) -> None:
        """Snapshots keep the buffer that they were taken of: it is only ever written behind their end."""
        if not len(rows):
            return
        count = self._count + len(rows)
        if count > len(self._buffer):
            grown = np.empty(max(count, 2 * len(self._buffer)), ROW)
            grown[: self._count] = self._rows
            self._buffer = grown
        self._buffer[self._count : count] = rows
        self._count = count


def read_snapshot(run_dir: Path) -> MetricSnapshot:
    """The metrics of a run, read once."""
    return MetricIndex(run_dir).snapshot()


Series = dict[str, tuple[list[int], list[float]]]


def read_series(run_dir: Path, keys: Collection[str] | None = None) -> Series:
    """Every metric of a run, or those of these keys, as steps and values."""
    curves = read_snapshot(run_dir).series(keys).points
    return {key: (curve.steps.tolist(), curve.values.tolist()) for key, curve in curves.items()}


def series_over_time(run_dir: Path) -> Series:
    """The same over seconds since the run first measured something."""
    curves = read_snapshot(run_dir).series().points
    began = min((float(curve.clock.min()) for curve in curves.values() if len(curve.clock)), default=0.0)
    return {key: ((curve.clock - began).tolist(), curve.values.tolist()) for key, curve in curves.items()}


def fits(places: Sequence[FilePlace], files: Sequence[BufferedReader]) -> bool:
    """Whether these are the files that were read, as they were or longer."""
    if len(files) < len(places):
        return False
    return all(
        os.fstat(file.fileno()).st_size >= place.size and _place(file, place.size) == place
        for file, place in zip(files, places, strict=False)
    )


def _next_lines(file: BufferedReader) -> bytes:
    """Whole lines, at most `AT_ONCE` bytes of them; empty at the end of the file and before a torn line, where it then
    stands. Of a line that is longer, only the end."""
    data = file.read(AT_ONCE)
    whole = data.rfind(b"\n") + 1
    file.seek(whole - len(data), os.SEEK_CUR)
    return data[:whole] if whole or len(data) < AT_ONCE else next_line(file)


def _place(file: BufferedReader, size: int) -> FilePlace:
    status = os.fstat(file.fileno())
    return FilePlace(status.st_dev, status.st_ino, size, checksum(file, max(0, size - COMPARED), size))


def checksum(file: BufferedReader, start: int, end: int) -> int:
    """Of these bytes of a file, or of those that it has."""
    file.seek(start)
    value = 0
    while start < end and (data := file.read(min(CHUNK, end - start))):
        value, start = zlib.crc32(data, value), start + len(data)
    return value
