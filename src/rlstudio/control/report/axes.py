"""The frame of a small picture in SVG: a range of numbers on each axis, round ticks, grid lines and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEFT, RIGHT, TOP = 52, 12, 10
"""Room around the picture, for the labels."""

BELOW, BELOW_LABEL = 24, 40
"""The same below it, without and with the name of the axis."""

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Axes:
    """Maps numbers to places in a picture of `width` x `height`."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: int
    height: int
    x_label: str = ""

    @property
    def base(self) -> int:
        """Where the x axis lies."""
        return self.height - (BELOW_LABEL if self.x_label else BELOW)

    def x(self, values: Floats) -> Floats:
        low, high = self.x_range
        inner = self.width - LEFT - RIGHT
        return LEFT + (values - low) / (high - low) * inner

    def y(self, values: Floats) -> Floats:
        low, high = self.y_range
        return self.base - (values - low) / (high - low) * (self.base - TOP)

    def frame(self, x_ticks: dict[float, str] | None = None) -> str:
        """Grid lines, ticks and the label of the x axis. `x_ticks`: places and their names, in place of round ones."""
        y_ticks = round_ticks(*self.y_range, 5 if self.height > 200 else 4)
        across = x_ticks or labels(round_ticks(*self.x_range, 6 if self.width > 500 else 4))
        parts = []
        end = self.width - RIGHT
        for tick, name in labels(y_ticks).items():
            place = float(self.y(np.array(tick)))
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{place:.1f}" y2="{place:.1f}"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{place + 3.5:.1f}" text-anchor="end">{name}</text>')
        base = self.base
        for tick, name in across.items():
            at = float(self.x(np.array(tick)))
            parts.append(f'<text x="{at:.1f}" y="{base + 16}" text-anchor="middle">{escape(name)}</text>')
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{end}" y1="{base}" y2="{base}"/>')
        middle = (LEFT + end) / 2
        below = f'x="{middle:.0f}" y="{self.height - 2}" text-anchor="middle"'
        parts.append(f'<text class="label" {below}>{escape(self.x_label)}</text>')
        return "".join(parts)


def picture(axes: Axes, name: str, body: str, attributes: str = "") -> str:
    """The whole element; `name` is what it shows, for whoever does not see it."""
    size = f'viewBox="0 0 {axes.width} {axes.height}"'
    return f'<svg class="chart" {size} role="img" aria-label="{escape(name)}"{attributes}>{body}</svg>'


def axes_around(xs: Floats, ys: Floats, width: int, height: int, x_label: str = "") -> Axes:
    """Axes that hold all these points, with some air above and below."""
    low, high = float(ys.min()), float(ys.max())
    air = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    left, right = float(xs.min()), float(xs.max())
    return Axes((left, right if right > left else left + 1.0), (low - air, high + air), width, height, x_label)


def round_ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers inside the range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    raw = span / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.75)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, math.floor(high / step + 1e-9) + 1)]


def labels(ticks: list[float]) -> dict[float, str]:
    """Of one axis: all in the unit of the largest, with as many digits as keep neighbours apart."""
    unit, name = _unit_of(max(map(abs, ticks), default=0.0))
    scaled = [tick / unit for tick in ticks]
    digits = next((count for count in range(4, 12) if len({f"{x:.{count}g}" for x in scaled}) == len(scaled)), 12)
    return {tick: f"{x:.{digits}g}{name}" if tick else "0" for tick, x in zip(ticks, scaled, strict=True)}


def short(value: float) -> str:
    """`12k`, `0.05`, `3e-05`: as few characters as tell ticks apart."""
    unit, name = _unit_of(abs(value))
    return f"{value / unit:.4g}{name}"


def _unit_of(size: float) -> tuple[float, str]:
    return next(((unit, name) for unit, name in UNITS if size >= unit * 10 or size >= unit >= 1e6), (1.0, ""))
