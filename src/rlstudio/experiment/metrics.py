"""Metrics as JSON lines, `{ts, step, key, value, tags}`, in `metrics.jsonl` and the full files before it.

A file that would grow over `rotate_mb` becomes `metrics-0001.jsonl`, `metrics-0002.jsonl`, ... JSON has no NaN or
infinity: such a value is written as null with the tag `nan`, `inf` or `-inf`, and read back as what it was. Values that
depend on the clock carry the tag `clock` and are outside every promise of reproducibility.

A checkpoint stores `offset()`, a position across all files; a resumed run calls `cut_back` with it. Files are never
truncated in place: the prefix is copied and renamed, so a stale writer goes on in a file that is gone.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rlstudio.core.contracts import Lease
from rlstudio.experiment.files import Folder
from rlstudio.experiment.jsonl import LineWriter, decode, encode

CURRENT = "metrics.jsonl"
CLOCK = "clock"
_FULL = re.compile(r"metrics-(\d{4,})\.jsonl")
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_BUFFER = 1 << 18  # bytes kept back before a write happens by itself


class Record(NamedTuple):
    ts: float
    step: int
    key: str
    value: float
    tags: tuple[str, ...] = ()


def records(
    step: int, values: Mapping[str, float], tags: Sequence[str] = (), clock: Callable[[], float] = time.time
) -> list[Record]:
    """One record per value, all of this moment."""
    now = round(clock(), 3)
    return [Record(now, step, key, float(value), tuple(tags)) for key, value in values.items()]


class MetricsWriter:
    """The run's own sink: nothing is lost on a crash that a resumed run does not write again."""

    def __init__(self, run_dir: Path, *, lease: Lease | None = None, rotate_mb: float = 64.0) -> None:
        self._folder = Folder(run_dir)
        self._lease = lease
        self._limit = int(rotate_mb * (1 << 20))
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._file: LineWriter | None = None
        self._entries_synced = False

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            line = _line(record)
            self._buffer.append(line)
            self._buffered += len(line)
        if self._buffered > _BUFFER:
            self.flush()

    def flush(self) -> None:
        """What was kept back, as one write of whole lines."""
        data, self._buffer, self._buffered = b"".join(self._buffer), [], 0
        if not data:
            return
        if self._lease is not None:
            self._lease.check()
        file = self._open()
        if file.size and file.size + len(data) > self._limit:
            file = self._rotate(file)
        file.append(data)

    def _open(self) -> LineWriter:
        if self._file is None:
            self._file = LineWriter(self._folder, CURRENT)
        return self._file

    def _rotate(self, file: LineWriter) -> LineWriter:
        file.sync()  # later, `offset` syncs only the file that grows
        self.close()
        numbers = [number for number, _ in _full_files(self._folder)]
        self._folder.rename(CURRENT, f"metrics-{max(numbers, default=0) + 1:04d}.jsonl")
        self._entries_synced = False
        return self._open()

    def offset(self) -> int:
        """The end of everything written, after making it durable."""
        self.flush()
        self._open().sync()
        if not self._entries_synced:
            self._folder.sync()
            self._entries_synced = True
        return sum(self._folder.size(name) or 0 for name in metric_files(self._folder))

    def cut_back(self, offset: int) -> int:
        """Forget everything after `offset`; returns how many bytes before it are missing (0, unless files were lost).

        Each step leaves everything before `offset` in place, so a crash in between is mended by doing it again.
        """
        if self._lease is not None:
            self._lease.check()
        self.close()
        self._buffer, self._buffered, self._entries_synced = [], 0, False
        sizes = [(name, self._folder.size(name) or 0) for name in metric_files(self._folder)]
        start = sum(size for _, size in sizes)
        missing = max(0, offset - start)
        for name, size in reversed(sizes):
            start -= size
            if start >= offset:
                self._folder.unlink(name)
            elif start + size > offset:
                self._folder.keep_prefix(name, offset - start)
        return missing

    def close(self) -> None:
        """Does not write what was kept back: after a failure that is wrong, and otherwise `flush` came before."""
        if self._file is not None:
            self._file.close()
            self._file = None


def metric_files(folder: Folder) -> list[str]:
    """The run's metric files, oldest first."""
    names = [name for _, name in _full_files(folder)]
    return [*names, CURRENT] if folder.kind(CURRENT) == "file" else names


def copy_metrics(source: Folder, target: Folder, offset: int) -> None:
    """What a run wrote before `offset`, as files of the same names in another run: positions mean the same in both."""
    with ExitStack() as stack:
        for name, file in _opened(source, stack).items():
            size = min(os.fstat(file.fileno()).st_size, offset)
            if size:
                target.copy(name, file, size)
            offset -= size


def _opened(folder: Folder, stack: ExitStack) -> dict[str, BufferedReader]:
    """All metric files, oldest first; again where a run in training began its next one meanwhile."""
    while True:
        files = {name: stack.enter_context(folder.open(name)) for name in metric_files(folder)}
        if list(files) == metric_files(folder):
            return files
        stack.close()


def read_metrics(
    run_dir: Path,
    keys: Collection[str] | None = None,
    follow: bool = False,
    wait: Callable[[], bool] | None = None,
) -> Iterator[Record]:
    """The records of a run (only those `keys`), in the order they were written; lines torn by a crash are left out.

    With `follow` it goes on as the run writes. `wait` is called when there is nothing new, and says whether to look
    again; by default it sleeps a moment and never gives up.
    """
    tail = _Tail(Folder(run_dir))
    wait = wait or _sleep
    try:
        while True:
            yield from _parsed(tail.new_lines(), keys)
            if not follow or not wait():
                return
    finally:
        tail.close()


Series = dict[str, tuple[list[int], list[float]]]


def read_series(run_dir: Path, keys: Collection[str] | None = None) -> Series:
    """Every metric of a run, or those of these keys, as steps and values."""
    series: Series = {}
    for record in read_metrics(run_dir, keys=keys):
        steps, values = series.setdefault(record.key, ([], []))
        steps.append(record.step)
        values.append(record.value)
    return series


def first_difference(one: Path, other: Path) -> str | None:
    """Where the metrics of two runs part, ignoring time stamps and values tagged `clock`; None when they agree."""
    mine, yours = ([record for record in read_metrics(run_dir) if CLOCK not in record.tags] for run_dir in (one, other))
    for number, (a, b) in enumerate(zip_longest(mine, yours)):
        # repr: a NaN equals a NaN, and 0.0 is not -0.0
        if a is None or b is None or repr(a[1:]) != repr(b[1:]):
            return f"record {number}: {a} against {b}"
    return None


def _sleep() -> bool:
    time.sleep(0.3)
    return True


class _Tail:
    """Whole lines across all files, each once, as they come.

    Its place is a number of lines, which survives rotations and a resume that cut the files back: what a resumed run
    writes again has the same number of lines. As long as the newest file stays the same one, reading just goes on.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._done = 0
        self._skip = 0
        self._file: BufferedReader | None = None  # held open, so that no other file gets its inode

    def new_lines(self) -> Iterator[bytes]:
        if self._file is not None and self._is_newest(self._file):
            yield from self._rest(self._file)
            return
        self._skip = self._done
        for name in metric_files(self._folder):
            self.close()
            self._file = self._folder.open(name)
            yield from self._rest(self._file)

    def _is_newest(self, file: BufferedReader) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._folder.path(CURRENT).lstat())
        except FileNotFoundError:
            return False

    def _rest(self, file: BufferedReader) -> Iterator[bytes]:
        while (line := file.readline()).endswith(b"\n"):
            if self._skip:
                self._skip -= 1
            else:
                self._done += 1
                yield line
        file.seek(-len(line), os.SEEK_CUR)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _parsed(lines: Iterable[bytes], keys: Collection[str] | None) -> Iterator[Record]:
    for value in decode(lines):
        try:
            record = _record(value)
        except (LookupError, TypeError, ValueError, OverflowError):
            continue
        if keys is None or record.key in keys:
            yield record


def _line(record: Record) -> bytes:
    value: float | None = record.value
    tags = list(record.tags)
    if not math.isfinite(record.value):
        value = None
        tags.append(repr(record.value))
    return encode({"ts": record.ts, "step": record.step, "key": record.key, "value": value, "tags": tags})


def _record(value: dict[str, Any]) -> Record:
    number, tags = value["value"], [str(tag) for tag in value["tags"]]
    if number is None:
        number = _NOT_FINITE[tags.pop()]
    return Record(float(value["ts"]), int(value["step"]), str(value["key"]), float(number), tuple(tags))


def _full_files(folder: Folder) -> list[tuple[int, str]]:
    matches = (_FULL.fullmatch(name) for name in folder.names())
    return sorted((int(match[1]), match[0]) for match in matches if match)
