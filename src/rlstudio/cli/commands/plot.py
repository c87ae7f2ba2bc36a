"""`plot`: learning curves in the terminal or as a picture; runs of one experiment become one curve with a band."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Runs, RunsDir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rlstudio.experiment.analysis.curves import Curve
    from rlstudio.experiment.folder.status import Status
    from rlstudio.experiment.metrics.reader import Series

MAX_WIDTH = 100


def plot(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a picture: .png, .svg or .pdf.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="KEY", help="For example train/kl.  [default: evaluation return]")
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Draw learning curves, with a band over seeds."""
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.curves import SUFFIXES, choose_metric, plot_runs
    from rlstudio.experiment.metrics.reader import read_series
    from rlstudio.storage.output_file import output_path

    if out is not None:
        output_path(out, SUFFIXES)
    workspace = Workspace(runs_dir)
    folders = {folder.id: folder for folder in map(workspace.folder_to_read, runs)}
    read = [(folder.read_status(), read_series(folder.path)) for folder in folders.values()]
    key = choose_metric((name for _, series in read for name in series), metric)
    curves = _curves(read, key)
    if out is None:
        _draw(curves, key)
    else:
        stdout().line(str(plot_runs(curves, out, metric=key)))


def _curves(read: Sequence[tuple[Status, Series]], key: str) -> list[Curve]:
    """One curve per config hash, called by its runs' name; by id where two curves would be called the same."""
    from rlstudio.experiment.analysis.curves import Curve

    groups: dict[str, list[tuple[Status, Series]]] = {}
    for status, series in read:
        groups.setdefault(status.config_hash or status.id, []).append((status, series))
    names = [members[0][0].name for members in groups.values()]
    curves = []
    for members in groups.values():
        status = members[0][0]
        label = status.name if names.count(status.name) == 1 else status.id
        curves.append(Curve(label, [series[key] for _, series in members if key in series]))
    return curves


def _draw(curves: Sequence[Curve], key: str) -> None:
    from rlstudio.cli.screen.chart import chart

    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    terminal = stdout()
    for curve in curves:
        xs, ys = _centre(curve)
        seeds = f", IQM of {len(curve.runs)} runs" if len(curve.runs) > 1 else ""
        title = f"{curve.label}: {key}{seeds}"
        for line in chart(xs, ys, width=width, title=title, x_label="environment steps"):
            terminal.line(line)
        terminal.line()


def _centre(curve: Curve) -> tuple[ArrayLike, ArrayLike]:
    from rlstudio.core.rng import Rng
    from rlstudio.experiment.analysis.curves import band

    over = band(curve.runs, Rng(0, "plot/band").generator()) if len(curve.runs) > 1 else None
    if over is not None:
        return over.xs, over.centre
    return curve.runs[0] if curve.runs else ([], [])
