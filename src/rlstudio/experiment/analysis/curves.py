"""Learning curves as a picture: one line per group of runs, with the interquartile mean and its 95 % band where a group
has several runs. Matplotlib is imported when a picture is asked for, and its global state is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstudio.core.errors import UnknownName, UserError, suggest
from rlstudio.core.rng import Rng
from rlstudio.ops.statistics import iqm
from rlstudio.storage.output_file import output_path, written_whole
from rlstudio.storage.writers import translated_os_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Points = tuple[Floats, Floats]
"""Steps and values."""

EVALUATION_RETURN, TRAINING_RETURN = DEFAULT_METRICS = ("eval/return_mean", "rollout/return_mean")
SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's palette: distinct with any colour vision, and in print."""

DARK_COLOURS = ("#7BA2FF", "#FF9A52", "#4FD1A1", "#EC8FC6", "#E6B64C", "#69C3EE", "#9AA5B1")
"""The same hues on a dark ground."""

DASHES = ("-", "--", ":", "-.")
"""One more each time the colours have all been used."""

INSIDE = 4
"""Lines whose legend still finds room inside the picture."""

DENSE, PIECES = 3000, 400
"""A line of more points than that is a carpet of ink: it is drawn as so many means between extremes."""

RESAMPLES = 2000
"""As `bootstrap_interval` takes: a curve ends in the interval that a table has."""

INTERVAL = "IQM of n runs, 95 % bootstrap interval"
"""What a line with a band is."""

ROUGHLY = "mean between the lowest and the highest value"
"""What a line of very many points is."""

STYLE: dict[Any, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "axes.titlecolor": "#222222",
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler(color={COLOURS})",
    "grid.color": "#E4E4E4",
    "legend.labelcolor": "#333333",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "text.parse_math": False,  # a run may be called $5
    "svg.hashsalt": "rlstudio",  # the same curves give the same file
}

DARK: dict[Any, object] = STYLE | {
    "figure.facecolor": "#161A20",
    "axes.facecolor": "#161A20",
    "savefig.facecolor": "#161A20",
    "legend.facecolor": "#161A20",
    "text.color": "#C9D1DA",
    "axes.edgecolor": "#737D89",
    "axes.labelcolor": "#C9D1DA",
    "axes.titlecolor": "#E8EBEF",
    "axes.prop_cycle": f"cycler(color={DARK_COLOURS})",
    "grid.color": "#2C333D",
    "legend.labelcolor": "#C9D1DA",
    "xtick.color": "#A2ABB6",
    "ytick.color": "#A2ABB6",
}
"""For a dark page or slide: the ground and colours of a dark report."""


@dataclass(frozen=True)
class Curve:
    """One line of the picture: the runs of one group, each as (steps, values)."""

    label: str
    runs: Sequence[tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True)
class Band:
    """Interquartile mean over runs with the ends of its interval, on the steps that all of them have reached."""

    xs: Floats
    centre: Floats
    low: Floats
    high: Floats


def choose_metric(available: Iterable[str], wanted: str | None = None) -> str:
    """`wanted`, or the first default that is there: evaluation before training."""
    names = sorted(set(available))
    if wanted is not None:
        if wanted in names:
            return wanted
        listing = f"; there are: {', '.join(names)}" if names else "; no metric has been written"
        raise UnknownName(f"no metric {wanted!r}{suggest(wanted, names) or listing}")
    for name in (*DEFAULT_METRICS, *(name for name in names if "return" in name), *names):
        if name in names:
            return name
    raise UserError("no metric has been written: no run of these has come to the end of its first epoch")


def plot_runs(
    curves: Sequence[Curve],
    path: str | Path,
    *,
    metric: str = DEFAULT_METRICS[0],
    title: str = "",
    x_label: str = "environment steps",
    dark: bool = False,
) -> Path:
    """Draw the curves into a PNG, SVG or PDF file, by its suffix."""
    target = output_path(path, SUFFIXES)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    below = (len(curves) + 1) // 2 if len(curves) > INSIDE else 0  # rows of a legend in two columns
    with mpl.rc_context(DARK if dark else STYLE):
        figure = Figure(figsize=(8.0, 4.5 + 0.2 * below), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        drawn = [_draw(axes, curve, i) for i, curve in enumerate(curves)]
        if not any(drawn):
            raise UserError(f"no finite value of {metric} to plot yet; wait for the first one or choose another metric")
        single = len(curves) == 1 and not title
        heading = curves[0].label if single else title
        axes.set_title(heading, loc="left", fontsize=12, fontweight="bold", pad=12)
        axes.set_xlabel(x_label)
        axes.set_ylabel(metric)
        axes.xaxis.set_major_formatter(_tick_text)
        axes.grid(axis="y", linewidth=0.8)
        axes.margins(x=0.02, y=0.08)
        shades = [INTERVAL] * ("band" in drawn) + [ROUGHLY] * ("dense" in drawn)
        if not single or shades:
            _legend(figure, axes, below, "\n".join(shades))
        save_figure(figure, target)
    return target


def band(runs: Sequence[tuple[ArrayLike, ArrayLike]], generator: np.random.Generator) -> Band | None:
    """The band over several runs; runs logged at different steps are interpolated. None where they never overlap."""
    series = [finite_points(xs, ys) for xs, ys in runs]
    series = [(xs, ys) for xs, ys in series if len(xs)]
    if not series:
        return None
    start, end = max(xs[0] for xs, _ in series), min(xs[-1] for xs, _ in series)
    grid = np.unique(np.concatenate([xs for xs, _ in series]))
    grid = grid[(grid >= start) & (grid <= end)]
    if not len(grid):
        return None
    values = np.stack([np.interp(grid, xs, ys) for xs, ys in series], axis=-1)  # [X, S]
    picks = generator.integers(len(series), size=(RESAMPLES, len(series)))  # whole runs are drawn, not points
    # One step at a time: all of them at once would hold RESAMPLES copies of every curve.
    ends = np.stack([np.quantile(iqm(row[picks]), (0.025, 0.975)) for row in values])
    return Band(grid, iqm(values), ends[:, 0], ends[:, 1])


def envelope(xs: Floats, ys: Floats, pieces: int = PIECES) -> Band:
    """A curve of very many points in pieces of equal length: their means, between their lowest and highest values."""
    edges = np.linspace(0, len(xs), min(pieces, len(xs)) + 1).astype(np.int64)[:-1]
    counts = np.diff(edges, append=len(xs))
    low, high = np.minimum.reduceat(ys, edges), np.maximum.reduceat(ys, edges)
    return Band(np.add.reduceat(xs, edges) / counts, np.add.reduceat(ys, edges) / counts, low, high)


def band_of(curve: Curve) -> Band | None:
    """The band that is drawn of a curve; None for one run, or where runs never overlap. Always the same."""
    return band(curve.runs, resampling()) if len(curve.runs) > 1 else None


def resampling() -> np.random.Generator:
    """The random numbers of every interval over runs, so that pictures, tables and lines say the same."""
    return Rng(0, "plot/band").generator()


def legend_label(curve: Curve) -> str:
    return f"{curve.label} (n={len(curve.runs)})"


def _tick_text(x: float, _: float = 0.0) -> str:
    """`0.5`, `20`, `1.5k`, `300k`, `2M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:.6g}{unit}"
    return f"{x:.6g}"


def _draw(axes: Axes, curve: Curve, index: int) -> Literal["", "line", "dense", "band"]:
    """Draw one curve, and say as what."""
    colour, dashes = f"C{index % len(COLOURS)}", DASHES[index // len(COLOURS) % len(DASHES)]
    series = [(xs, ys) for xs, ys in (finite_points(xs, ys) for xs, ys in curve.runs) if len(xs)]
    whole = Curve(curve.label, series)
    over, label = band_of(whole), legend_label(whole)
    if over is None:
        for i, (xs, ys) in enumerate(series):
            named = label if i == 0 else None
            if len(xs) > DENSE:
                rough = envelope(xs, ys)
                axes.fill_between(rough.xs, rough.low, rough.high, color=colour, alpha=0.18, linewidth=0)
                _line(axes, rough.xs, rough.centre, colour, dashes, named)
            else:
                _line(axes, xs, ys, colour, dashes, named)
        dense = any(len(xs) > DENSE for xs, _ in series)
        return "dense" if dense else "line" if series else ""
    for xs, ys in series:
        fine = envelope(xs, ys, DENSE) if len(xs) > DENSE else None
        points = (xs, ys) if fine is None else (fine.xs, fine.centre)
        axes.plot(*points, color=colour, linewidth=0.7, alpha=0.25)
    axes.fill_between(over.xs, over.low, over.high, color=colour, alpha=0.18, linewidth=0)
    _line(axes, over.xs, over.centre, colour, dashes, label)
    return "band"


def _line(axes: Axes, xs: Floats, ys: Floats, colour: str, dashes: str, label: str | None) -> None:
    marker = "o" if len(xs) <= 30 else None  # so few that each point is an event of its own
    axes.plot(xs, ys, linewidth=1.8, marker=marker, markersize=3.5, color=colour, linestyle=dashes, label=label)


def _legend(figure: Figure, axes: Axes, rows_below: int, title: str) -> None:
    """Inside where there is room; a long list goes below the picture, where it hides nothing."""
    style: dict[str, Any] = {"fontsize": 9, "edgecolor": "none", "framealpha": 0.85}
    style |= {"title": title, "title_fontsize": 8, "alignment": "left"}
    if rows_below:
        figure.legend(loc="outside lower center", ncols=2, **style)
    else:
        axes.legend(loc="best", **style)


def save_figure(figure: Figure, target: Path) -> None:
    kind = target.suffix.lower().lstrip(".")
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with written_whole(target) as partial, translated_os_errors(target):
        figure.savefig(partial, format=kind, metadata=undated)


def finite_points(xs: ArrayLike, ys: ArrayLike) -> Points:
    """The finite points in step order; of several at one step, the last written counts."""
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    steps, last = np.unique(x[::-1], return_index=True)
    return steps, y[::-1][last]
