"""The top of the page: what it is about, how it ended, and the groups beside each other."""

from __future__ import annotations

from datetime import datetime
from html import escape

from rlstudio.control.report.content import ReportContent
from rlstudio.control.report.html import card, estimate_text, section, share_text, table, tile
from rlstudio.core.format_values import duration, interval, number, plural
from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.groups import MeasuredRun

MOOD = {
    RunState.COMPLETED: "good",
    RunState.FAILED: "bad",
    RunState.CANCELLED: "bad",
    RunState.INTERRUPTED: "warn",
}


def header(content: ReportContent) -> str:
    runs = content.runs
    worlds = ", ".join(dict.fromkeys(run.status.env_id for run in runs))
    algos = ", ".join(dict.fromkeys(run.status.algo for run in runs))
    kind, lead = "run", f"{algos} on {worlds}"
    if content.sweep is not None:
        kind, lead = "sweep", f"{lead}, {plural(len(content.sweep.trials), 'trial')}"
    elif content.only_run is None:
        kind = "groups of runs" if len(content.groups) > 1 else "group of runs"
        lead = f"{lead}, {plural(len(runs), 'run')}"
    else:
        lead = f"{lead}, seed {content.only_run.status.seed}"
    ident = f" &middot; <code>{escape(content.only_run.status.id)}</code>" if content.only_run else ""
    return (
        f'<header><p class="kind">{kind}</p><h1>{escape(content.title)} {_state(content)}</h1>'
        f'<p class="lead">{escape(lead)}{ident}</p></header>'
    )


def _state(content: ReportContent) -> str:
    if content.sweep is not None:
        state = str(content.sweep.sweep.current)
        return _pill(state, MOOD.get(RunState(state), "") if state in set(RunState) else "")
    states = list(dict.fromkeys(run.status.state for run in content.runs))
    if len(states) > 1:
        done = sum(run.status.state == RunState.COMPLETED for run in content.runs)
        return _pill(f"{done} of {len(content.runs)} completed", "warn")
    reason = content.only_run.status.reason if content.only_run else ""
    return _pill(f"{states[0].lower()}{': ' if reason else ''}{reason}", MOOD.get(states[0], ""))


def _pill(text: str, mood: str) -> str:
    return f'<span class="state {mood}">{escape(text.lower())}</span>'


def tiles(content: ReportContent) -> str:
    if content.only_run is not None:
        parts = _of_run(content, content.only_run)
    elif content.sweep is not None:
        parts = _of_sweep(content)
    else:
        parts = _of_groups(content)
    return f'<div class="tiles">{"".join(parts)}</div>'


def _of_run(content: ReportContent, run: MeasuredRun) -> list[str]:
    status = run.status
    bounds = interval(status.eval_interval) if status.eval_interval else ""
    steps, returns = run.points("eval/return_mean")
    best = int(returns.argmax()) if len(returns) else None
    _, rates = run.points("time/steps_per_second")
    seconds = elapsed(status.created_at, status.updated_at)
    return [
        tile("evaluation", number(status.eval_return), f"95 % interval {bounds}" if bounds else ""),
        *(
            [tile("best evaluation", number(float(returns[best])), f"at {steps[best]:,.0f} steps")]
            if best is not None
            else []
        ),
        tile("environment steps", f"{status.env_steps:,}", f"epoch {status.epoch:,} of {status.total_epochs:,}"),
        *(
            [tile("steps a second", f"{sorted(rates)[len(rates) // 2]:,.0f}", "median over epochs")]
            if len(rates)
            else []
        ),
        tile("from launch to end", duration(seconds), f"resumes {'exactly' if status.exact else 'inexactly'}"),
    ]


def _of_groups(content: ReportContent) -> list[str]:
    comparison = content.comparison
    parts = []
    for group in comparison.groups[:3] if comparison is not None else ():
        value = number(group.iqm.value) if group.iqm is not None else "-"
        ends = f"IQM {interval((group.iqm.low, group.iqm.high))}, " if group.iqm is not None and group.n > 1 else ""
        parts.append(tile(group.name, value, f"{ends}{plural(group.n, 'run')}"))
    steps = sum(run.status.env_steps for run in content.runs)
    done = sum(run.status.state == RunState.COMPLETED for run in content.runs)
    parts.append(tile("runs completed", f"{done} of {len(content.runs)}"))
    parts.append(tile("environment steps", f"{steps:,}", "of all runs together"))
    return parts


def _of_sweep(content: ReportContent) -> list[str]:
    summary = content.sweep
    assert summary is not None
    best = summary.best
    states = [trial.state.lower() for trial in summary.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    value, which = ("-", "") if best is None else (number(summary.value(best)), f"trial {best.number}")
    return [
        tile(f"best {summary.cfg.metric}", value, which),
        tile("trials", str(len(states)), counts),
        tile("seeds of a trial", str(len(summary.cfg.seeds))),
        tile("environment steps", f"{summary.env_steps():,}", "of all trials together"),
    ]


def groups_table(content: ReportContent) -> str:
    """The groups beside each other, and their runs."""
    comparison = content.comparison
    if comparison is None or content.sweep is not None:
        return ""
    parts = []
    if len(comparison.groups) > 1:
        first = comparison.groups[0].name
        head = ["group", "runs", "IQM [95 %]", "mean [95 %]", f"P(better than {first})"]
        rows = [
            [group.name, str(group.n), *map(estimate_text, (group.iqm, group.mean)), share_text(group.improvement)]
            for group in comparison.groups
        ]
        parts.append(card(table(head, rows, (1,))))
    rows = [
        [group.name, str(run.seed), str(run.state).lower(), f"{run.step:,}", number(run.value), run.id]
        for group in comparison.groups
        for run in group.runs
    ]
    head = ["group", "seed", "state", "steps", comparison.metric, "run"]
    parts.append(card(table(head, rows, (1, 3, 4)), kind="flow"))
    return section("Runs", f'<div class="stack">{"".join(parts)}</div>')


def elapsed(began: str, ended: str) -> float:
    """Seconds between two moments; NaN where one is not known."""
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except ValueError:
        return float("nan")
