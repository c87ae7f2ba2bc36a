"""Groups of runs from Python: compared and drawn, by the words and filters of the command line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Notice
from rlstudio.experiment.folder.runs_dir import usual_runs_dir
from rlstudio.orchestrator.handle import Run

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.compare_groups import GroupComparison
    from rlstudio.experiment.analysis.groups import MeasuredGroup


def compare(
    *runs: str | Run,
    metric: str | None = None,
    minimize: bool = False,
    states: Sequence[str] = (),
    envs: Sequence[str] = (),
    algos: Sequence[str] = (),
    tags: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> GroupComparison:
    """Compare groups of runs, each by the last values of its runs: `.groups[0].iqm.value`,
    `.groups[1].improvement.low`, `.notes`. A group is the runs of one name; `states`, `envs`, `algos` and `tags` filter
    the runs that are named, or all runs if none is. `minimize`: a lower metric is better."""
    from rlstudio.experiment.analysis.compare_groups import compare_groups

    groups = _groups(runs, (states, envs, algos, tags), runs_dir)
    return compare_groups(groups, metric, minimize=minimize)


def plot(
    *runs: str | Run,
    out: str | Path,
    metric: str | None = None,
    dark: bool = False,
    states: Sequence[str] = (),
    envs: Sequence[str] = (),
    algos: Sequence[str] = (),
    tags: Sequence[str] = (),
    runs_dir: str | Path | None = None,
) -> Path:
    """Learning curves as a picture (.png, .svg or .pdf), with a band over the runs of each group. A warning says what
    is not drawn as one may expect."""
    from rlstudio.experiment.analysis.curves import plot_runs
    from rlstudio.experiment.analysis.groups import curve_metric, curves_of

    groups = _groups(runs, (states, envs, algos, tags), runs_dir)
    key, notes = curve_metric(groups, metric)
    curves, more = curves_of(groups, key)
    for note in (*notes, *more):
        warnings.warn(note, Notice, stacklevel=2)
    return plot_runs(curves, out, metric=key, dark=dark)


def _groups(
    runs: Sequence[str | Run], filters: tuple[Sequence[str], ...], runs_dir: str | Path | None
) -> tuple[MeasuredGroup, ...]:
    from rlstudio.control.runs.looking.measured import measured_groups
    from rlstudio.control.runs.select import Filters, select

    words = [run.id if isinstance(run, Run) else run for run in runs]
    workspace = Workspace(Path(runs_dir or usual_runs_dir()))
    return measured_groups(select(workspace, words, Filters(*filters)))
