"""Files of lines: written whole, one write per flush; read with tolerance for a line torn by a crash."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader

from rlstudio.core.contracts import State
from rlstudio.storage.folder import Folder

LONGEST_LINE = 1 << 20
"""Bytes that are read of one line. Ours are a few hundred; a file from elsewhere may be one line of gigabytes."""

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(record: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(record).encode() + b"\n"


def next_line(file: BufferedReader) -> bytes:
    """The next whole line, or only its end (which no record is) where it is too long; empty at the end of the file and
    before a torn line, where the file then stands."""
    line = file.readline(LONGEST_LINE)
    if line.endswith(b"\n"):
        return line
    passed = len(line)
    while passed >= LONGEST_LINE and (piece := file.readline(LONGEST_LINE)):
        if piece.endswith(b"\n"):
            return b"\n"
        passed += len(piece)
    file.seek(-passed, 1)
    return b""


def whole_lines(file: BufferedReader) -> Iterator[bytes]:
    """Up to the end of the file, or to a torn line."""
    return iter(lambda: next_line(file), b"")


def decode(lines: Iterable[bytes]) -> Iterator[State]:
    """The objects among these lines; anything that is not a complete line with one object is left out."""
    for line in lines:
        if not line.endswith(b"\n"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


class LineWriter:
    """Appends lines to one file; `size` is where its end is."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.size = folder.size(name) or 0
        torn = self.size > 0 and not _ends_whole(folder, name)
        self._file = folder.append(name)
        if torn:  # the torn line stays what it is; ours must not become its end
            self.append(b"\n")

    def append(self, lines: bytes) -> None:
        self._file.append(lines)
        self.size += len(lines)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def _ends_whole(folder: Folder, name: str) -> bool:
    with folder.open(name) as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
