"""Groups of runs on the screen: their curves in one chart, and their results in one table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, Terminal, width_of

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.curves import Curve

MAX_WIDTH = 100
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STYLES = ("cyan", "yellow", "magenta", "green", "red", "blue")


def print_curves(
    out: Terminal, curves: Sequence[Curve], metric: str, x_label: str = "environment steps", unit: str = "steps"
) -> None:
    """One chart for all curves, and below it what each is and where it ended."""
    import numpy as np

    from rlstudio.cli.screen.chart import ChartLine, chart
    from rlstudio.experiment.analysis.curves import INTERVAL, band_of, finite_points, legend_label
    from rlstudio.experiment.analysis.groups import amount

    lines, legend = [], []
    for number, curve in enumerate(curves):
        several = len(curves) > 1
        letter, style = (LETTERS[number % len(LETTERS)], STYLES[number % len(STYLES)]) if several else ("", "")
        over = band_of(curve)
        series = [finite_points(*run) for run in curve.runs] if over is None else [(over.xs, over.centre)]
        lines += [ChartLine(xs, ys, letter, style) for xs, ys in series]
        ends = "" if over is None else f" {text.interval((float(over.low[-1]), float(over.high[-1])))}"
        last = [f"{text.number(float(ys[-1]))}{ends} at {amount(float(xs[-1]))} {unit}" for xs, ys in series]
        legend.append([Cell(f"{letter} " if several else "", style), Cell(legend_label(curve))])
        legend[-1].append(Cell(f": {', '.join(last) or 'no value yet'}"))
    if any(np.size(line.xs) > 1 for line in lines):
        width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
        for row in chart(lines, width=width, title=metric, x_label=x_label):
            out.pieces(row)
    else:  # a point is no curve: its value below says all of it
        out.line(metric)
    for row in legend:
        out.pieces(row)
    if any(len(curve.runs) > 1 for curve in curves):
        out.line(INTERVAL, "dim")


def print_groups(out: Terminal, comparison: Mapping[str, Any]) -> None:
    _, *others = comparison["groups"]
    envs = ", ".join(dict.fromkeys(name for group in comparison["groups"] for name in group["envs"]))
    algos = ", ".join(dict.fromkeys(name for group in comparison["groups"] for name in group["algos"]))
    better = ", less is better" if comparison["direction"] == "minimize" else ""
    out.line(f"{comparison['metric']} at the end of each run{better}; {algos} on {envs}", "bold")
    names = [group["name"] for group in comparison["groups"]]
    rows = []
    for group in comparison["groups"]:
        improvement = [_estimate(group["improvement"], "{:.2f}".format)] if others else []
        rows.append([str(group["n"]), _estimate(group["iqm"]), _estimate(group["mean"]), *improvement])
    called = names
    table = _with_names(called, rows)
    if width_of(table) > shutil.get_terminal_size().columns:  # names tell groups apart only as a whole
        called = [_letters(number) for number in range(len(names))]
        table = _with_names(called, rows)
    out.table(table[0], table[1:])
    if called != names:
        for short, name in zip(called, names, strict=True):
            out.line(f"{short}  {name}")
    for note in comparison["notes"]:
        out.line(f"note: {note}", "yellow")


def _with_names(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The table with its header."""
    header = ["group", "n", "IQM [95 %]", "mean [95 %]", *([f"P(better than {names[0]})"] if len(names) > 1 else [])]
    return [header, *([name, *row] for name, row in zip(names, rows, strict=True))]


def _letters(number: int) -> str:
    """A to Z, then AA, AB, ..."""
    rest, last = divmod(number, len(LETTERS))
    return (_letters(rest - 1) if rest else "") + LETTERS[last]


def _estimate(estimate: Mapping[str, float | None] | None, number: Callable[[float], str] = text.number) -> str:
    """One run has no interval."""
    if estimate is None or estimate["value"] is None:
        return "-"
    low, high = estimate["low"], estimate["high"]
    ends = "" if low is None or high is None else f" [{number(low)}, {number(high)}]"
    return f"{number(estimate['value'])}{ends}"
