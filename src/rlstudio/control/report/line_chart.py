"""A line chart as SVG that takes its colours from the page, so that one picture serves light, dark and print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstudio.control.report.axes import TOP, Axes, Floats, axes_around, picture
from rlstudio.experiment.analysis.curves import DENSE, Band, Curve, band_of, envelope, finite_points
from rlstudio.experiment.metrics.indexed.downsampling import kept_points

MOST_POINTS = 400
"""Of a line: two for each column of a wide picture."""

MOST_FAINT = 12
"""Single runs that are drawn behind a band; more are a carpet."""

COLOURS = 7
"""That the page has; later lines begin again, dashed."""


@dataclass(frozen=True)
class ReportLine:
    """One line, perhaps with a band around it and the single runs behind it."""

    label: str
    xs: Floats
    ys: Floats
    low: Floats | None = None
    high: Floats | None = None
    faint: tuple[tuple[Floats, Floats], ...] = ()
    place: int = 0  # of its group on the page: the colour is the same in every picture


def line_of(curve: Curve, place: int = 0) -> ReportLine | None:
    """A group of runs as a line: the interquartile mean with its band, or the one run. None where nothing is finite."""
    series = [(xs, ys) for xs, ys in (finite_points(*run) for run in curve.runs) if len(xs)]
    if not series:
        return None
    band = band_of(Curve(curve.label, [_thinned(*run) for run in series]))
    if band is None:
        xs, ys = series[0]
        if len(xs) > DENSE:
            return _banded(curve.label, envelope(xs, ys), (), place)
        return ReportLine(curve.label, *_thinned(xs, ys), place=place)
    return _banded(curve.label, band, tuple(_thinned(*run) for run in series[:MOST_FAINT]), place)


def with_interval(line: ReportLine, low: tuple[ArrayLike, ArrayLike], high: tuple[ArrayLike, ArrayLike]) -> ReportLine:
    """The line of one run between the ends of an interval that the run measured too."""
    (low_xs, lows), (high_xs, highs) = finite_points(*low), finite_points(*high)
    if not len(low_xs) or not len(high_xs):
        return line
    return replace(line, low=np.interp(line.xs, low_xs, lows), high=np.interp(line.xs, high_xs, highs))


def line_chart(lines: Sequence[ReportLine], *, width: int, height: int, x_label: str, name: str) -> str:
    """`name`: what the picture shows, for whoever does not see it."""
    pieces = [piece for line in lines for piece in (line.ys, line.low, line.high) if piece is not None]
    pieces += [ys for line in lines for _, ys in line.faint]
    axes = axes_around(np.concatenate([line.xs for line in lines]), np.concatenate(pieces), width, height, x_label)
    body = "".join(_drawn(axes, line) for line in lines)
    data = json.dumps([_hover(axes, line) for line in lines], separators=(",", ":"))
    cursor = f'<line class="cursor" y1="{TOP}" y2="{axes.base}"/>'
    return picture(axes, name, axes.frame() + body + cursor, f' data-lines="{escape(data)}"')


def legend(lines: Sequence[ReportLine]) -> str:
    """The names of the lines beside their colours."""
    items = "".join(f'<li class="{_look(line)}"><i></i>{escape(line.label)}</li>' for line in lines)
    return f'<ul class="legend">{items}</ul>'


def _look(line: ReportLine) -> str:
    """The classes of its colour and dashes."""
    return f"s{line.place % COLOURS}{' dashed' if line.place >= COLOURS else ''}"


def _drawn(axes: Axes, line: ReportLine) -> str:
    parts = [f'<path class="faint" d="{_path(axes, xs, ys)}"/>' for xs, ys in line.faint]
    if line.low is not None and line.high is not None:
        there = _path(axes, line.xs, line.high)
        back = _path(axes, line.xs[::-1], line.low[::-1]).replace("M", "L", 1)
        parts.append(f'<path class="band" d="{there}{back}Z"/>')
    parts.append(f'<path class="line" d="{_path(axes, line.xs, line.ys)}"/>')
    if len(line.xs) <= 30:  # so few that each point is an event of its own
        places = zip(axes.x(line.xs).tolist(), axes.y(line.ys).tolist(), strict=True)
        parts += [f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>' for x, y in places]
    return f'<g class="{_look(line)}">{"".join(parts)}</g>'


def _path(axes: Axes, xs: Floats, ys: Floats) -> str:
    places = zip(axes.x(xs).tolist(), axes.y(ys).tolist(), strict=True)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _hover(axes: Axes, line: ReportLine) -> dict[str, object]:
    """What the page needs to say the value below the pointer."""
    return {
        "s": line.place % COLOURS,
        "label": line.label,
        "px": [round(x, 1) for x in axes.x(line.xs).tolist()],
        "x": [round(x) for x in line.xs.tolist()],
        "y": [float(f"{y:.5g}") for y in line.ys.tolist()],
    }


def _banded(label: str, band: Band, faint: tuple[tuple[Floats, Floats], ...], place: int) -> ReportLine:
    kept = _kept(band.centre)
    return ReportLine(label, band.xs[kept], band.centre[kept], band.low[kept], band.high[kept], faint, place)


def _thinned(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    kept = _kept(ys)
    return xs[kept], ys[kept]


def _kept(values: Floats) -> NDArray[np.int64]:
    return kept_points(values, np.arange(len(values), dtype=np.int64), MOST_POINTS)
