"""Curves: the one that counts, large; everything else that was measured, small; and the evaluations as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rlstudio.control.report.content import ReportContent
from rlstudio.control.report.html import card, folded, section, table
from rlstudio.control.report.line_chart import ReportLine, legend, line_chart, line_of, with_interval
from rlstudio.core.format_values import number, plural
from rlstudio.experiment.analysis.curves import INTERVAL, Curve
from rlstudio.experiment.analysis.groups import MeasuredGroup

WIDE, SMALL = (1040, 340), (340, 180)
OPEN_EVALUATIONS = 15

TITLES = {
    "rollout/return_mean": "Return in training",
    "rollout/length_mean": "Length of episodes in training",
    "eval/return_mean": "Return in evaluation",
    "eval/length_mean": "Length of episodes in evaluation",
    "rollout/is_success": "Success in training",
    "eval/is_success": "Success in evaluation",
    "train/loss": "Loss",
    "train/policy_loss": "Policy loss",
    "train/value_loss": "Value loss",
    "train/q_loss": "Loss of values",
    "train/q": "Values of actions",
    "train/entropy": "Entropy of the policy",
    "train/kl": "KL divergence of an update",
    "train/clip_fraction": "Clipped share",
    "train/explained_variance": "Explained variance",
    "train/grad_norm": "Gradient norm",
    "train/lr": "Learning rate",
    "train/epsilon": "Random actions",
    "train/temperature": "Temperature",
    "data/replay_fill": "Filled share of the replay",
    "time/steps_per_second": "Steps a second",
}
"""Metrics in the order in which they are looked at; others follow, folded."""


def curves(content: ReportContent) -> str:
    lines = _lines(content.groups, content.metric)
    if not lines:
        return section("Learning curve", card('<p class="quiet">Nothing has been measured yet.</p>'))
    title = TITLES.get(content.metric, content.metric)
    only = content.only_run
    caption = ""
    if only is not None and content.metric == "eval/return_mean" and lines[0].low is None:
        ends = (only.series.get(f"eval/return_ci_{end}", ((), ())) for end in ("low", "high"))
        lines = [with_interval(lines[0], *ends)]
        caption = "Greedy policy on its own environments; the band is the 95 % interval over episodes."
    elif only is not None and lines[0].low is not None:
        caption = "Means of many points, between the lowest and the highest of them."
    elif any(line.low is not None for line in lines):
        caption = f"{INTERVAL}; thin lines are single runs."
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in content.notes)
    picture = line_chart(lines, width=WIDE[0], height=WIDE[1], x_label="environment steps", name=title)
    names = legend(lines) if len(content.groups) > 1 else ""
    below = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    return section(title, card(picture, names, below, notes, kind="wide"))


def small_charts(content: ReportContent) -> str:
    """The other metrics: the usual ones open, the rest folded."""
    names = {name for run in content.runs for name in run.series} - {content.metric}
    usual = [name for name in TITLES if name in names]
    rest = sorted(name for name in names - set(TITLES) if not name.startswith("eval/return_"))
    pictures = [picture for name in usual if (picture := _small(content, name))]
    folded_pictures = [picture for name in rest if (picture := _small(content, name))]
    count = plural(len(folded_pictures), "other metric")
    more = folded(count, _grid(folded_pictures), kind="screen") if folded_pictures else ""
    inside = _grid(pictures) + more
    return section("What it measured", f'<div class="stack">{inside}</div>' if inside else "")


def evaluations(content: ReportContent) -> str:
    """Of one run, each of its last evaluations."""
    run = content.only_run
    if run is None:
        return ""
    columns = {
        "mean": "eval/return_mean",
        "IQM": "eval/return_iqm",
        "low": "eval/return_ci_low",
        "high": "eval/return_ci_high",
        "worst": "eval/return_min",
        "best": "eval/return_max",
        "length": "eval/length_mean",
        "episodes": "eval/episodes",
    }
    by_step: dict[float, list[str]] = {}
    for place, metric in enumerate(columns.values()):
        for step, value in zip(*(array.tolist() for array in run.points(metric)), strict=True):
            text = f"{value:.0f}" if metric == "eval/episodes" else number(value)
            by_step.setdefault(step, ["-"] * len(columns))[place] = text
    if not by_step:
        return ""
    steps = sorted(by_step, reverse=True)
    rows = [[f"{step:,.0f}", *by_step[step]] for step in steps]
    head = ["steps", *columns]
    newest, hidden = rows[:OPEN_EVALUATIONS], rows[OPEN_EVALUATIONS:]
    right = range(len(head))
    older = folded(plural(len(hidden), "older evaluation"), table(head, hidden, right)) if hidden else ""
    return section("Evaluations", card(table(head, newest, right), older, kind="flow"))


def _grid(pictures: Sequence[str]) -> str:
    return f'<div class="grid-2">{"".join(pictures)}</div>' if pictures else ""


def _small(content: ReportContent, metric: str) -> str:
    lines = _lines(content.groups, metric)
    if not lines or all(len(line.xs) < 2 for line in lines):
        return ""
    title = TITLES.get(metric, metric)
    picture = line_chart(lines, width=SMALL[0], height=SMALL[1], x_label="", name=title)
    names = legend(lines) if len(content.groups) > 1 else ""
    return card(f"<h3>{escape(title)}</h3>", picture, names)


def _lines(groups: Sequence[MeasuredGroup], metric: str) -> list[ReportLine]:
    curves = [Curve(group.label, [run.points(metric) for run in group.runs]) for group in groups]
    return [line for place, curve in enumerate(curves) if (line := line_of(curve, place)) is not None]
