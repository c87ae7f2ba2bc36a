"""`plot`: learning curves in the terminal or as a picture, one for each group of runs, with a band over its runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Algos, Envs, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.failures import complain
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, Terminal, stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.curves import Curve

MAX_WIDTH = 100
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STYLES = ("cyan", "yellow", "magenta", "green", "red", "blue")


def plot(
    runs: RunWords = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a picture: .png, .svg or .pdf.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="KEY", help="For example train/kl.  [default: evaluation return]")
    ] = None,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Draw learning curves, with a band over the runs of each group.

    \b
    rlctl plot last
    rlctl plot lr1e-3 lr1e-4 --out lr.png
    rlctl plot --algo ppo --state completed
    """
    from rlstudio.control.runs.measured import measured_groups
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.curves import SUFFIXES, plot_runs
    from rlstudio.experiment.analysis.groups import curve_metric, curves_of
    from rlstudio.storage.output_file import output_path

    if out is not None:
        output_path(out, SUFFIXES)
    selected = Selection(runs, state, env, algo, tag).entries(Workspace(runs_dir))
    groups = measured_groups(selected)
    key, notes = curve_metric(groups, metric)
    curves, more = curves_of(groups, key)
    for note in (*notes, *more):
        complain(f"note: {note}")
    if out is None:
        _draw(stdout(), curves, key)
    else:
        stdout().line(str(plot_runs(curves, out, metric=key)))


def _draw(out: Terminal, curves: Sequence[Curve], key: str) -> None:
    """One chart for all curves, and below it what each is and where it ended."""
    from rlstudio.cli.screen.chart import ChartLine, chart
    from rlstudio.experiment.analysis.curves import INTERVAL, band_of, finite_points, legend_label

    lines, legend = [], []
    for number, curve in enumerate(curves):
        several = len(curves) > 1
        letter, style = (LETTERS[number % len(LETTERS)], STYLES[number % len(STYLES)]) if several else ("", "")
        over = band_of(curve)
        series = [finite_points(*run) for run in curve.runs] if over is None else [(over.xs, over.centre)]
        lines += [ChartLine(xs, ys, letter, style) for xs, ys in series]
        ends = "" if over is None else f" {text.interval((float(over.low[-1]), float(over.high[-1])))}"
        last = [f"{text.number(float(ys[-1]))}{ends} at {xs[-1]:,.0f} steps" for xs, ys in series]
        legend.append([Cell(f"{letter} " if several else "", style), Cell(legend_label(curve))])
        legend[-1].append(Cell(f": {', '.join(last) or 'no value yet'}"))
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    for row in chart(lines, width=width, title=key, x_label="environment steps"):
        out.pieces(row)
    for row in legend:
        out.pieces(row)
    if any(len(curve.runs) > 1 for curve in curves):
        out.line(INTERVAL, "dim")
