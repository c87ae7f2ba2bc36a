"""MetricsWriter: the metrics of a run as JSON lines that survive a crash.

A checkpoint stores `offset()`, a position across all files; a resumed run calls `cut_back` with it. Files are never
truncated in place: the prefix is copied and renamed, so a stale writer goes on in a file that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlstudio.core.contracts import Lease
from rlstudio.experiment.metrics.records import CURRENT, Record, full_files, metric_files, to_line
from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import LineWriter

_BUFFER = 1 << 18  # bytes kept back before a write happens by itself


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
            line = to_line(record)
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
        numbers = [number for number, _ in full_files(self._folder)]
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
