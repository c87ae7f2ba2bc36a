"""A line chart in braille dots (2 x 4 per character), as lines of text for any terminal. Nothing is printed here."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

DOT_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Unicode's bit of each dot of a braille cell, by column and by row from the top."""

MIN_PLOT = 8
"""Cells of width below which the labels of the y axis are left out."""


LIMIT = 1e300
"""Magnitude from which differences of two values overflow."""


def chart(
    xs: ArrayLike, ys: ArrayLike, *, width: int = 72, height: int = 12, title: str = "", x_label: str = ""
) -> list[str]:
    """`ys` over `xs` as `height` rows with both axes, at most `width` (and never under 2) characters wide.

    A value that is not finite (or too large to scale) leaves a gap in the line.
    """
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    drawable = (np.abs(x) < LIMIT) & (np.abs(y) < LIMIT)
    head = [title[: max(width, 2)]] if title else []
    if not drawable.any():
        return [*head, "no data yet"[: max(width, 2)]]
    left, right = float(x[drawable].min()), float(x[drawable].max())
    low, high = _range(float(y[drawable].min()), float(y[drawable].max()))

    ticks = _y_labels(low, high, height)
    gutter = max(len(label) for label in ticks.values())
    if width - gutter - 2 < MIN_PLOT:
        ticks, gutter = {}, 0
    cells = max(width - gutter - 2, 1) if gutter else max(width - 1, 1)

    columns = np.zeros(len(x)) if right == left else (x - left) / (right - left) * (2 * cells - 1)
    rows = (high - y) / (high - low) * (4 * height - 1)
    canvas = _draw(columns, rows, drawable, cells, height)

    lines = []
    for row, bits in enumerate(canvas):
        label = ticks.get(row)
        prefix = f"{label or '':>{gutter}} " if gutter else ""
        lines.append(prefix + ("┤" if label else "│") + "".join(chr(0x2800 + int(bit)) for bit in bits))
    indent = " " * (gutter + 1) if gutter else ""
    return [*head, *lines, indent + "└" + "─" * cells, *_x_axis(indent, cells, left, right, x_label)]


def _range(low: float, high: float) -> tuple[float, float]:
    """A constant is drawn through the middle."""
    if high > low:
        return low, high
    margin = abs(low) * 0.5 or 1.0
    return low - margin, high + margin


def _draw(columns: np.ndarray, rows: np.ndarray, drawable: np.ndarray, cells: int, height: int) -> np.ndarray:
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
