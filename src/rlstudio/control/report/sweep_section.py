"""A sweep: which settings mattered, each setting against the result, and all trials."""

from __future__ import annotations

import json
import math
from html import escape

import numpy as np

from rlstudio.control.report.axes import axes_around, picture, short
from rlstudio.control.report.content import ReportContent
from rlstudio.control.report.html import card, section, table
from rlstudio.control.sweep.charts import log_ticks
from rlstudio.control.sweep.report import SweepSummary, importance
from rlstudio.control.sweep.space import number_of
from rlstudio.control.sweep.sweeps import TrialState
from rlstudio.core.format_values import number

SIZE = (340, 200)


def sweep_sections(content: ReportContent) -> str:
    summary = content.sweep
    return "" if summary is None else _settings(summary) + _trials(summary)


def _settings(summary: SweepSummary) -> str:
    weights = importance(summary)
    bars = "".join(
        f'<tr><td>{escape(path)}</td><td class="bars"><div class="bar"><i style="width:{weight:.0%}"></i></div></td>'
        f'<td class="n">{weight:.2f}</td></tr>'
        for path, weight in weights.items()
    )
    parts = []
    if bars:
        caption = "How much the order of the trials follows a setting, from 0 to 1 (rank correlation)."
        parts.append(card(f"<table><tbody>{bars}</tbody></table>", f'<p class="caption">{caption}</p>'))
    pictures = "".join(card(f"<h3>{escape(path)}</h3>", _scatter(summary, path)) for path in summary.cfg.space)
    return section("Settings", f'<div class="stack">{"".join(parts)}<div class="grid-2">{pictures}</div></div>')


def _scatter(summary: SweepSummary, path: str) -> str:
    """Each trial as a point; those that were given up early are rings."""
    dimension = summary.cfg.space[path]
    points = []
    for trial in summary.trials:
        value = summary.value(trial)
        if value is None or path not in trial.params or not math.isfinite(value):
            continue
        setting = trial.params[path]
        place = float(dimension.choices.index(setting)) if dimension.choices is not None else number_of(setting)
        points.append((math.log10(place) if dimension.log else place, value, trial))
    if not points:
        return '<p class="quiet">No trial has a result yet.</p>'
    xs, ys = np.array([x for x, _, _ in points]), np.array([y for _, y, _ in points])
    ticks: dict[float, str] | None = None
    if dimension.choices is not None:
        ticks = {float(place): str(choice) for place, choice in enumerate(dimension.choices)}
        axes = axes_around(np.array([-0.5, len(dimension.choices) - 0.5]), ys, *SIZE)
    else:
        low, high = float(dimension.low or 0), float(dimension.high or 0)
        if dimension.log:
            ticks = {math.log10(tick): short(tick) for tick in log_ticks(low, high)}
            low, high = math.log10(low), math.log10(high)
        axes = axes_around(np.array([low, high]), ys, *SIZE)
    best = summary.best
    marks = []
    for x, y, (_, value, trial) in zip(axes.x(xs).tolist(), axes.y(ys).tolist(), points, strict=True):
        kind = "dot" if trial.state == TrialState.COMPLETED else "ring"
        colour = 1 if best is not None and trial.number == best.number else 0
        name = escape(f"trial {trial.number}: {json.dumps(trial.params[path])}, {number(value)}")
        circle = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{name}</title></circle>'
        marks.append(f'<g class="s{colour}">{circle}</g>')
    return picture(axes, f"{path} against {summary.cfg.metric}", axes.frame(ticks) + "".join(marks))


def _trials(summary: SweepSummary) -> str:
    paths = list(summary.cfg.space)
    order = sorted(summary.trials, key=lambda trial: (trial.score is None, -(trial.score or 0.0), trial.number))
    best = summary.best
    rows = [
        [
            str(trial.number),
            str(trial.state).lower(),
            f"{max(trial.results, default=0)}/{summary.epochs}",
            *(_setting(trial.params.get(path)) for path in paths),
            number(summary.value(trial)),
            number(summary.bound(trial)),
        ]
        for trial in order
    ]
    head = ["trial", "state", "epoch", *paths, summary.cfg.metric, "bound"]
    marked = next((place for place, trial in enumerate(order) if best is not None and trial.number == best.number), -1)
    return section("Trials", card(table(head, rows, range(2, len(head)), marked), kind="flow"))


def _setting(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
