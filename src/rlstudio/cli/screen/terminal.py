"""Writing to the terminal: lines, tables and JSON documents; colour only where a person looks at it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import NamedTuple, TextIO

from rlstudio.cli.screen.text import cut, cut_middle, safe
from rlstudio.core.errors import StorageError

STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

SEPARATOR = "  "
NAMES = frozenset({"name"})
"""Columns of a table that are cut in the middle."""

STATE_STYLES = {
    "COMPLETED": "green",
    "FAILED": "red",
    "CANCELLED": "red",
    "INTERRUPTED": "yellow",
    "STOPPING": "yellow",
    "RUNNING": "cyan",
    "STARTING": "cyan",
}


class PipeClosed(Exception):
    """The reader of our output has closed the pipe; nothing more can be written."""


class OutputClosed(StorageError):
    """Something in this process closed our output, or it was closed when the program started."""

    def __init__(self) -> None:
        super().__init__("output: is closed; an environment or another part must leave sys.stdout and sys.stderr open")


class _Closed(StringIO):
    """In place of a stream that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.close()


class Cell(NamedTuple):
    """A piece of text with a style, for tables."""

    text: str
    style: str = ""


class Terminal:
    """One output stream. Text from outside is escaped by `line` and `table`, so no caller can forget it."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream or _Closed()
        self.is_live = (
            not self.stream.closed
            and self.stream.isatty()
            and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        )
        self.has_colour = self.is_live and not os.environ.get("NO_COLOR")

    def style(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and self.has_colour else text

    def line(self, text: str = "", style: str = "") -> None:
        self._write(self.style(safe(text), style) + "\n")

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str | Cell]],
        *,
        shrinking: Mapping[str, int] | None = None,
    ) -> None:
        """Columns under their names, as wide as they need to be. `shrinking`: columns that are cut, down to so many
        characters, where the table would be wider than the terminal; names (`NAMES`) in their middle."""
        cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
        cells = [[Cell(safe(cell.text), cell.style) for cell in row] for row in cells]
        cells.insert(0, [Cell(name, "dim") for name in header])
        widths = [max(len(row[i].text) for row in cells) for i in range(len(header))]
        if shrinking is not None:
            least = {header.index(name): width for name, width in shrinking.items()}
            _shrink(widths, least, shutil.get_terminal_size().columns)
        for row in cells:
            padded = [
                self.style((cut_middle if name in NAMES else cut)(cell.text, width), cell.style)
                + " " * (width - len(cell.text))
                for name, cell, width in zip(header, row, widths, strict=True)
            ]
            self._write(SEPARATOR.join(padded).rstrip() + "\n")

    def pieces(self, row: Sequence[Cell]) -> None:
        """One line of several pieces, each in its own style; spaces at its end are left out."""
        text = "".join(self.style(safe(cell.text), cell.style) for cell in row)
        self._write(text.rstrip() + "\n")

    def document(self, value: object) -> None:
        """One JSON document; a value that JSON does not have (NaN, infinity) is null."""
        self._write(json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")

    def record(self, value: object) -> None:
        """One line of JSON."""
        self._write(json.dumps(_finite(value), allow_nan=False) + "\n")

    def raw(self, text: str) -> None:
        """Text that was made here and is safe as it is."""
        self._write(text)

    def flush(self) -> None:
        self._write("", flush=True)

    def abandon(self) -> None:
        """Point the stream at /dev/null: what is still written, also by the interpreter at its exit, does not fail
        again."""
        with suppress(OSError, ValueError):  # a stream in memory has no descriptor, nor has a closed one
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def _write(self, text: str, flush: bool = False) -> None:
        try:
            self.stream.write(text)
            if flush or self.is_live:
                self.stream.flush()
        except BrokenPipeError:
            raise PipeClosed from None
        except OSError as error:
            if error.errno == errno.EBADF:
                raise OutputClosed from error
            raise StorageError(f"output: {error.strerror or error}") from error
        except ValueError as error:  # of a stream that was closed
            raise OutputClosed from error


def width_of(rows: Sequence[Sequence[str]]) -> int:
    """How wide `Terminal.table` makes a table that is not cut; `rows` with their header."""
    widths = [max(len(safe(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return sum(widths) + len(SEPARATOR) * (len(widths) - 1)


def _shrink(widths: list[int], least: Mapping[int, int], columns: int) -> None:
    """Take from the column that has most to give, until the row fits or none can give more."""
    excess = sum(widths) + len(SEPARATOR) * (len(widths) - 1) - columns
    for _ in range(excess):
        widest = max(least, key=lambda column: widths[column] - least[column])
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def stdout() -> Terminal:
    return Terminal(sys.stdout)


def stderr() -> Terminal:
    return Terminal(sys.stderr)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
