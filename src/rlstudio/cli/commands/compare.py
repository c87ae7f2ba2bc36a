"""`compare`: what groups of runs earned, side by side. `diff`: what tells two runs apart, and where their metrics part.
Nothing here imports torch."""

from __future__ import annotations

import json as json_text
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import RUN_HELP, Algos, Envs, Json, Run, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.compare_groups import GroupComparison
    from rlstudio.experiment.analysis.compare_runs import Difference, MetricsComparison
    from rlstudio.ops.statistics import IntervalEstimate

DIFFERENT = 1
"""As diff(1) has it: 0 for equal, 1 for different, more for trouble."""


def compare(
    runs: RunWords = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="KEY", help="For example train/kl.  [default: evaluation return]")
    ] = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Less of the metric is better.")] = False,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Compare groups of runs: mean, interval, probability of improvement.

    A group is the runs that share a name. Intervals are 95 % bootstrap intervals over runs; each run counts by its last
    value. What makes the groups hard to compare (other environments, other steps, few runs) is said below the table.

    \b
    rlctl compare lr1e-3 lr1e-4
    rlctl compare --env CartPole-v1 --state completed
    rlctl compare lr1e-3 lr1e-4 --metric train/kl --minimize --json
    """
    from rlstudio.control.runs.measured import measured_groups
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.compare_groups import compare_groups

    selected = Selection(runs, state, env, algo, tag).entries(Workspace(runs_dir))
    groups = measured_groups(selected)
    comparison = compare_groups(groups, metric, minimize=minimize)
    if json:
        stdout().document(comparison.to_json())
    else:
        _print_groups(stdout(), comparison)


def _print_groups(out: Terminal, comparison: GroupComparison) -> None:
    first, *others = comparison.groups
    envs = ", ".join(dict.fromkeys(name for group in comparison.groups for name in group.envs))
    algos = ", ".join(dict.fromkeys(name for group in comparison.groups for name in group.algos))
    better = ", less is better" if comparison.minimize else ""
    out.line(f"{comparison.metric} at the end of each run{better}; {algos} on {envs}", "bold")
    header = ["group", "n", "IQM [95 %]", "mean [95 %]", *([f"P(better than {first.name})"] if others else [])]
    rows = []
    for group in comparison.groups:
        improvement = [_estimate(group.improvement, "{:.2f}".format)] if others else []
        rows.append([group.name, str(group.n), _estimate(group.iqm), _estimate(group.mean), *improvement])
    out.table(header, rows, shrinking={"group": 12})
    for note in comparison.notes:
        out.line(f"note: {note}", "yellow")


def _estimate(estimate: IntervalEstimate | None, number: Callable[[float], str] = text.number) -> str:
    """One run has no interval."""
    if estimate is None:
        return "-"
    ends = "" if math.isnan(estimate.low) else f" [{number(estimate.low)}, {number(estimate.high)}]"
    return f"{number(estimate.value)}{ends}"


def diff(
    run: Run,
    other: Annotated[str, typer.Argument(metavar="OTHER", help=RUN_HELP, autocompletion=completion.runs)],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Compare two runs: configuration, origin, first diverging metric.

    Exits with 0 when configuration and metrics are the same, with 1 when they differ, with more when a run cannot be
    read. Topology and lineage may explain a difference and are printed, but do not count as one.
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.compare_runs import compare_runs
    from rlstudio.experiment.lineage.lineage import recorded_lineage

    workspace = Workspace(runs_dir)
    left, right = workspace.folder_to_read(run), workspace.folder_to_read(other)
    comparison = compare_runs(left, right, recorded_lineage(left), recorded_lineage(right))
    out = stdout()
    if json:
        out.document({"left": left.id, "right": right.id, **comparison.to_json()})
    else:
        out.line(f"{left.id} -> {right.id}", "bold")
        _print_fields(out, "config", comparison.config)
        _print_fields(out, "topology", comparison.topology)
        _print_fields(out, "lineage", comparison.lineage)
        _print_metrics(out, comparison.metrics)
    return 0 if comparison.equal else DIFFERENT


def _print_fields(out: Terminal, title: str, differences: list[Difference] | None) -> None:
    if differences is None:
        out.line(f"{title:<9} not recorded by both", "dim")
    elif not differences:
        out.line(f"{title:<9} the same")
    else:
        out.line(f"{title:<9} {len(differences)} {'difference' if len(differences) == 1 else 'differences'}", "yellow")
        for difference in differences:
            out.line(f"  {difference.field}: {_value_text(difference.left)} -> {_value_text(difference.right)}")


def _print_metrics(out: Terminal, metrics: MetricsComparison) -> None:
    same = f"the same {metrics.same_values:,} values up to step {metrics.same_up_to:,}" if metrics.same_values else ""
    if metrics.divergence is not None:
        apart = metrics.divergence
        out.line(f"metrics   part at step {apart.step:,}{f', after {same}' if same else ''}", "yellow")
        out.line(f"  {apart.key}: {_value_text(apart.left)} -> {_value_text(apart.right)}")
        if apart.largest is not None:
            largest = "infinite" if math.isinf(apart.largest) else text.number(apart.largest)
            out.line(f"  largest relative difference at this step: {largest} ({apart.largest_key})")
    elif metrics.longer is not None:
        ended = "right" if metrics.longer == "left" else "left"
        extent = f"{same}, where the {ended} one ends" if same else f"the {ended} one has none"
        out.line(f"metrics   {extent}", "yellow")
    else:
        out.line(f"metrics   {same or 'none in either'}")


def _value_text(value: object) -> str:
    """Text as it is, the rest as in JSON, with every digit of a number."""
    from rlstudio.experiment.analysis.compare_runs import ABSENT

    if value is ABSENT:
        return "(absent)"
    return value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)
