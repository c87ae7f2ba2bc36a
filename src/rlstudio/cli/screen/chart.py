"""A line chart in braille dots (2 x 4 per character), as rows of text for any terminal. Nothing is printed here.

Several lines share both axes. Each has a letter on it, so that they can be told apart without colours too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstudio.cli.screen.terminal import Cell

DOT_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Unicode's bit of each dot of a braille cell, by column and by row from the top."""

MIN_PLOT = 8
"""Cells of width below which the labels of the y axis are left out."""

LIMIT = 1e300
"""Magnitude from which differences of two values overflow."""

LETTERS_PER_LINE = 5
"""Places of a line at which its letter is tried, besides its end."""

Bits = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Row = list[Cell]
"""Pieces of one row of text; joined they are the row."""


class ChartLine(NamedTuple):
    """One line: a value that is not finite (or too large to scale) leaves a gap in it."""

    xs: ArrayLike
    ys: ArrayLike
    letter: str = ""
    style: str = ""


def chart(
    lines: Sequence[ChartLine], *, width: int = 72, height: int = 12, title: str = "", x_label: str = ""
) -> list[Row]:
    """The lines as `height` rows with both axes, at most `width` (and never under 2) characters wide."""
    points = [_Points(np.asarray(line.xs, np.float64), np.asarray(line.ys, np.float64)) for line in lines]
    head = [[Cell(title[: max(width, 2)])]] if title else []
    xs = np.concatenate([each.xs[each.drawable] for each in points] or [np.empty(0)])
    ys = np.concatenate([each.ys[each.drawable] for each in points] or [np.empty(0)])
    if not len(xs):
        return [*head, [Cell("no data yet"[: max(width, 2)])]]
    left, right = float(xs.min()), float(xs.max())
    low, high = _range(float(ys.min()), float(ys.max()))

    ticks = _y_labels(low, high, height)
    gutter = max(len(label) for label in ticks.values())
    if width - gutter - 2 < MIN_PLOT:
        ticks, gutter = {}, 0
    cells = max(width - gutter - 2, 1) if gutter else max(width - 1, 1)

    canvases = []
    for each in points:
        columns = np.zeros(len(each.xs)) if right == left else (each.xs - left) / (right - left) * (2 * cells - 1)
        rows = (high - each.ys) / (high - low) * (4 * height - 1)
        canvases.append(_draw(columns, rows, each.drawable, cells, height))

    body = []
    for row, pieces in enumerate(_joined(lines, canvases)):
        label = ticks.get(row)
        prefix = f"{label or '':>{gutter}} " if gutter else ""
        body.append([Cell(prefix + ("┤" if label else "│")), *pieces])
    indent = " " * (gutter + 1) if gutter else ""
    axis = [indent + "└" + "─" * cells, *_x_axis(indent, cells, left, right, x_label)]
    return [*head, *body, *([Cell(text)] for text in axis)]


class _Points(NamedTuple):
    xs: Floats
    ys: Floats

    @property
    def drawable(self) -> Flags:
        return np.asarray((np.abs(self.xs) < LIMIT) & (np.abs(self.ys) < LIMIT))


def _joined(lines: Sequence[ChartLine], canvases: Sequence[Bits]) -> list[Row]:
    """All canvases in one: where lines cross, a cell has the dots of both and the style of the later one."""
    symbols = np.bitwise_or.reduce(canvases) + 0x2800
    owners = np.full(symbols.shape, -1)
    for number, canvas in enumerate(canvases):
        owners[canvas > 0] = number
    for (row, column), number in _letters(lines, canvases).items():
        symbols[row, column], owners[row, column] = ord(lines[number].letter), number
    return [
        [
            Cell("".join(chr(symbol) for _, symbol in piece), lines[owner].style if owner >= 0 else "")
            for owner, piece in groupby(zip(*pair, strict=True), key=itemgetter(0))
        ]
        for pair in zip(owners.tolist(), symbols.tolist(), strict=True)
    ]


def _letters(lines: Sequence[ChartLine], canvases: Sequence[Bits]) -> dict[tuple[int, int], int]:
    """Cells that hold the letter of a line, with the number of the line: its last one, and some on the way, at other
    columns than those of the other lines. A cell that has a letter keeps it."""
    letters: dict[tuple[int, int], int] = {}
    for number, (line, canvas) in enumerate(zip(lines, canvases, strict=True)):
        drawn = np.flatnonzero(canvas.any(axis=0))
        if not line.letter or not len(drawn):
            continue
        shares = (np.arange(LETTERS_PER_LINE) + (number + 1) / (len(lines) + 1)) / LETTERS_PER_LINE
        for column in (int(drawn[-1]), *(shares * canvas.shape[1]).astype(int).tolist()):
            own = np.flatnonzero(canvas[:, column])
            if len(own):
                letters.setdefault((int(own[len(own) // 2]), column), number)
    return letters


def _range(low: float, high: float) -> tuple[float, float]:
    """A constant is drawn through the middle."""
    if high > low:
        return low, high
    margin = abs(low) * 0.5 or 1.0
    return low - margin, high + margin


def _draw(columns: Floats, rows: Floats, drawable: Flags, cells: int, height: int) -> Bits:
    """The bits of each cell: every drawable point, and a straight line between neighbours that are both drawable."""
    canvas = np.zeros((height, cells), np.int64)

    def dot(column: float, row: float) -> None:
        c, r = round(column), round(row)
        canvas[r // 4, c // 2] |= DOT_BITS[c % 2][r % 4]

    for i in np.flatnonzero(drawable).tolist():
        dot(columns[i], rows[i])
    for i, j in pairwise(range(len(drawable))):
        if drawable[i] and drawable[j]:
            length = math.ceil(max(abs(columns[j] - columns[i]), abs(rows[j] - rows[i])))
            for t in np.linspace(0.0, 1.0, length + 1)[1:-1]:
                dot(columns[i] + t * (columns[j] - columns[i]), rows[i] + t * (rows[j] - rows[i]))
    return canvas


def _y_labels(low: float, high: float, height: int) -> dict[int, str]:
    """Labels of the bottom, middle and top rows; the outer two name the extremes, whose dots lie in those rows."""
    places = {height - 1: low, height // 2: high - (high - low) * (height // 2 + 0.5) / height, 0: high}
    return {row: _number(value, high - low) for row, value in places.items()}


def _x_axis(indent: str, cells: int, left: float, right: float, label: str) -> list[str]:
    first = _number(left, right - left)
    last = _number(right, right - left) if right > left else ""
    if len(first) + len(last) + 1 > cells + 1:
        return []
    middle = label if len(first) + len(label) + len(last) + 2 <= cells + 1 else ""
    return [(indent + first + middle.center(cells + 1 - len(first) - len(last)) + last).rstrip()]


def _number(value: float, span: float) -> str:
    """As many decimals as tell values apart that lie a few percent of `span` from each other."""
    units = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"), (0.0, 1.0, ""))
    unit, suffix = next((unit, suffix) for start, unit, suffix in units if abs(value) >= start)
    if abs(value) >= 1e15 or not span >= 1e-5:
        return f"{value:.4g}"
    decimals = min(max(1 - math.floor(math.log10(span / unit)), 0), 6)
    text = f"{value / unit:.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix
