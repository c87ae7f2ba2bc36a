"""`diff`: what tells two runs apart, and where their metrics part. Nothing here imports torch."""

from __future__ import annotations

import json as json_text
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import RUN_HELP, Json, Run, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.compare_runs import Difference, MetricsComparison

DIFFERENT = 1
"""As diff(1) has it: 0 for equal, 1 for different, more for trouble."""


def diff(
    run: Run,
    other: Annotated[str, typer.Argument(metavar="OTHER", help=RUN_HELP, autocompletion=completion.runs)],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Compare two runs: configuration, origin, first diverging metric.

    Exits with 0 when configuration and metrics are the same, with 1 when they differ, with more when a run cannot be
    read. What a run was computed on and where it comes from explains a difference and is none.
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.compare_runs import compare_runs
    from rlstudio.experiment.lineage.lineage import recorded_lineage

    workspace = Workspace(runs_dir)
    left, right = workspace.folder_to_read(run), workspace.folder_to_read(other)
    found = compare_runs(left, right, recorded_lineage(left), recorded_lineage(right))
    out = stdout()
    if json:
        out.document({"left": left.id, "right": right.id, **found.to_json()})
    else:
        out.line(f"{left.id} -> {right.id}", "bold")
        _print_fields(out, "config", found.config)
        _print_fields(out, "topology", found.topology)
        _print_fields(out, "lineage", found.lineage)
        _print_metrics(out, found.metrics)
    return 0 if found.equal else DIFFERENT


def _print_fields(out: Terminal, title: str, found: list[Difference] | None) -> None:
    if found is None:
        out.line(f"{title:<9} not recorded by both", "dim")
    elif not found:
        out.line(f"{title:<9} the same")
    else:
        out.line(f"{title:<9} {len(found)} {'difference' if len(found) == 1 else 'differences'}", "yellow")
        for difference in found:
            out.line(f"  {difference.field}: {_shown(difference.left)} -> {_shown(difference.right)}")


def _print_metrics(out: Terminal, metrics: MetricsComparison) -> None:
    same = f"the same {metrics.same_values:,} values up to step {metrics.same_up_to:,}" if metrics.same_values else ""
    if metrics.divergence is not None:
        apart = metrics.divergence
        out.line(f"metrics   part at step {apart.step:,}{f', after {same}' if same else ''}", "yellow")
        out.line(f"  {apart.key}: {_shown(apart.left)} -> {_shown(apart.right)}")
        if apart.largest is not None:
            largest = "infinite" if math.isinf(apart.largest) else text.number(apart.largest)
            out.line(f"  largest relative difference at this step: {largest} ({apart.largest_key})")
    elif metrics.longer is not None:
        ended = "right" if metrics.longer == "left" else "left"
        told = f"{same}, where the {ended} one ends" if same else f"the {ended} one has none"
        out.line(f"metrics   {told}", "yellow")
    else:
        out.line(f"metrics   {same or 'none in either'}")


def _shown(value: Any) -> str:
    """Text as it is, the rest as in JSON, with every digit of a number."""
    from rlstudio.experiment.analysis.compare_runs import ABSENT

    if value is ABSENT:
        return "(absent)"
    return value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)
