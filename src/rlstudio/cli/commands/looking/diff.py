"""`diff`: what tells runs apart, and where their metrics part. Nothing here imports torch."""

from __future__ import annotations

import json as json_text
import math
from typing import TYPE_CHECKING

from rlstudio.cli.arguments.options import Algos, Envs, Json, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry, Workspace
    from rlstudio.experiment.analysis.compare_runs import Comparison, Difference, MetricsComparison

DIFFERENT = 1
"""As diff(1) has it: 0 for equal, 1 for different, more for trouble."""


def diff(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Compare runs: configuration, origin, first diverging metric.

    Two groups are compared seed by seed, more than two runs each with the first. Exits with 0 when configuration and
    metrics are the same, with 1 when they differ, with more when a run cannot be read. Names, topology and lineage
    are printed where they differ, but do not count as a difference.

    \b
    rlctl diff RUN OTHER
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.compare_runs import compare_runs
    from rlstudio.experiment.lineage.lineage import recorded_lineage

    workspace = Workspace(runs_dir)
    pairs = _pairs(workspace, Selection(words, states, envs, algos, tags))
    documents: list[dict[str, object]] = []
    above: Comparison | None = None
    is_same = True
    for one, other in pairs:
        left, right = workspace.folder_to_read(one.id), workspace.folder_to_read(other.id)
        comparison = compare_runs(left, right, recorded_lineage(left), recorded_lineage(right))
        documents.append({"left": left.id, "right": right.id, **comparison.to_json()})
        is_same = is_same and comparison.equal
        if not json:
            print_comparison(stdout(), left.id, right.id, comparison, above)
        above = comparison
    if json:
        stdout().document(documents if len(documents) > 1 else documents[0])
    return 0 if is_same else DIFFERENT


def _pairs(workspace: Workspace, selection: Selection) -> list[tuple[Entry, Entry]]:
    """Which runs are compared. Two words that mean several runs are compared seed by seed, where they have the same
    seeds."""
    from rlstudio.control.runs.select import select

    words = selection.words or ()
    if len(words) == 2:
        left, right = (select(workspace, [word], selection.filters) for word in words)
        if len(left) == len(right) == 1:  # also a run with itself
            return [(left[0], right[0])]
        of_seed = [{entry.status.seed: entry for entry in side} for side in (left, right)]
        is_paired = of_seed[0].keys() == of_seed[1].keys() and len(left) == len(right) == len(of_seed[0])
        if is_paired and words[0] != words[1]:
            return [(of_seed[0][seed], of_seed[1][seed]) for seed in sorted(of_seed[0])]
    first, *others = selection.entries(workspace)
    if not others:
        raise UserError(f"diff: only run {first.id} is selected; name another to compare it with")
    return [(first, other) for other in others]


def print_comparison(out: Terminal, left: str, right: str, comparison: Comparison, above: Comparison | None) -> None:
    """`above`: the comparison that was printed before, which is not repeated where this one says the same."""
    out.line(f"{left} -> {right}", "bold")
    for title in ("config", "topology", "lineage"):
        differences = getattr(comparison, title)
        if above is not None and differences and differences == getattr(above, title):
            out.line(f"{title:<9} differs as above", "yellow")
        else:
            _print_fields(out, title, differences)
    _print_metrics(out, comparison.metrics)


def _print_fields(out: Terminal, title: str, differences: list[Difference] | None) -> None:
    if differences is None:
        out.line(f"{title:<9} not recorded by both", "dim")
    elif not differences:
        out.line(f"{title:<9} the same")
    else:
        named = title == "config" and any(difference.field == "name" for difference in differences)
        counted = len(differences) - named  # another name is no difference
        amount = text.plural(counted, "difference") if counted else "the same"
        out.line(f"{title:<9} {amount}{', apart from the name' if named else ''}", "yellow" if counted else "")
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
