"""What a page is about: the groups that were measured, with the origin of each run, and the sweep where it is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlstudio.control.runs.looking.measured import measured_groups
from rlstudio.control.sweep.report import SweepSummary, summary_of
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import UserError
from rlstudio.experiment.analysis.compare_groups import GroupComparison, compare_groups
from rlstudio.experiment.analysis.curves import EVALUATION_RETURN
from rlstudio.experiment.analysis.groups import MeasuredGroup, MeasuredRun, MetricChoice, curve_metric, curves_of
from rlstudio.experiment.metrics.description import RunDescription, describe

BEST_TRIALS = 6
"""Of a sweep, whose curves are drawn."""


@dataclass(frozen=True)
class ReportContent:
    title: str
    metric: str
    groups: tuple[MeasuredGroup, ...]
    origins: dict[str, RunDescription]  # by the id of the run
    comparison: GroupComparison | None
    notes: tuple[str, ...]
    sweep: SweepSummary | None = None
    events: dict[str, list[dict[str, object]]] = field(default_factory=dict)  # by the id of the run

    @property
    def runs(self) -> list[MeasuredRun]:
        return [run for group in self.groups for run in group.runs]

    @property
    def only_run(self) -> MeasuredRun | None:
        """The run, where the page is about one."""
        return self.runs[0] if len(self.runs) == 1 and self.sweep is None else None


def content_of_runs(entries: Sequence[Entry], metric: str | None = None) -> ReportContent:
    """The selected runs, group by group."""
    groups = measured_groups(entries)
    return _content(" and ".join(group.label for group in groups[:3]), groups, entries, metric)


def content_of_sweep(workspace: Workspace, name: str) -> ReportContent:
    """A sweep, with the curves of its best trials."""
    summary = summary_of(workspace.records, name)
    with_score = [trial for trial in summary.trials if trial.score is not None]
    best = sorted(with_score, key=lambda trial: (-(trial.score or 0.0), trial.number))[:BEST_TRIALS]
    ids = [run.id for trial in best for run in summary.runs if run.trial == trial.number]
    entries = [entry for entry in workspace.entries_of(ids) if entry.has_folder]
    if not entries:
        raise UserError(f"sweep {name}: no trial has a result yet; there is nothing to report")
    return _content(name, measured_groups(entries), entries, summary.cfg.metric, summary)


def _content(
    title: str,
    groups: tuple[MeasuredGroup, ...],
    entries: Sequence[Entry],
    metric: str | None,
    sweep: SweepSummary | None = None,
) -> ReportContent:
    is_empty = metric is None and not any(run.series for group in groups for run in group.runs)
    chosen, notes = MetricChoice(EVALUATION_RETURN, []) if is_empty else curve_metric(groups, metric)
    more = curves_of(groups, chosen)[1] if sweep is None and not is_empty else []
    several = sum(len(group.runs) for group in groups) > 1 and not is_empty
    minimize = sweep is not None and sweep.sign < 0
    comparison = compare_groups(groups, None if metric is None else chosen, minimize=minimize) if several else None
    with_folder = [entry for entry in entries if entry.has_folder]
    return ReportContent(
        title=title,
        metric=chosen,
        groups=groups,
        origins={entry.id: describe(entry.folder.path, entry.run.tags if entry.run else ()) for entry in with_folder},
        comparison=comparison,
        # Of a sweep, trials were given up on purpose: that they are hard to compare is what it is about.
        notes=(*notes, *more, *(comparison.notes if comparison is not None and sweep is None else ())),
        sweep=sweep,
        events={entry.id: list(entry.folder.events()) for entry in with_folder},
    )
