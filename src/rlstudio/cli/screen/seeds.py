"""The results of several seeds of one experiment, as a table and as one mean with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import STATE_STYLES, Cell, Terminal
from rlstudio.control.runs.looking.documents import run_document
from rlstudio.core.run_state import Reason, RunState, exit_code_of

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry
    from rlstudio.experiment.folder.run_folder import RunFolder
    from rlstudio.ops.statistics import Summary


@dataclass
class SeedResult:
    """How one run ended. `code` 0 means completed."""

    run: dict[str, Any]
    summary: Summary | None = None  # of its last evaluation; none where it did not come to that
    code: int = 0
    goes_on: bool = True

    def document(self) -> dict[str, object]:
        return {**self.run, "evaluation": None if self.summary is None else self.summary.to_json()}


def recorded_result(entry: Entry) -> SeedResult:
    """Of a run that another process trained."""
    status = entry.status
    has_final = status.state == RunState.COMPLETED or status.reason == Reason.GATE_FAILED
    summary = _recorded_summary(entry.folder) if has_final and entry.has_folder else None
    return SeedResult(run_document(status, entry.folder), summary, exit_code_of(status.state, status.reason))


def _recorded_summary(folder: RunFolder) -> Summary | None:
    """The last evaluation among the metrics."""
    from rlstudio.experiment.metrics.indexed.index import read_series
    from rlstudio.ops.statistics import Summary

    keys = {field.name: f"eval/return_{field.name}" for field in fields(Summary)} | {"n": "eval/episodes"}
    series = read_series(folder.path, set(keys.values()))
    if any(key not in series for key in keys.values()):
        return None
    values: dict[str, Any] = {name: series[key][1][-1] for name, key in keys.items()}
    return Summary(**{**values, "n": round(values["n"])})


def over_seeds(returns: Sequence[float]) -> dict[str, float] | None:
    """Interquartile mean of the seeds' mean returns, with its 95 % bootstrap interval; None without any."""
    from rlstudio.experiment.analysis.curves import resampling
    from rlstudio.ops.statistics import bootstrap_interval, iqm

    if not returns:
        return None
    low, high = bootstrap_interval(returns, resampling(), statistic=iqm)
    mean = sum(returns) / len(returns)
    return {"seeds": len(returns), "mean": mean, "iqm": float(iqm(returns)), "ci_low": low, "ci_high": high}


def summary_line(returns: Sequence[float]) -> str:
    """`over_seeds` for a person; there must be at least one."""
    summary = over_seeds(returns) or {}
    bounds = text.interval((summary["ci_low"], summary["ci_high"]))
    return f"IQM {text.number(summary['iqm'])}, 95 % interval {bounds} over {text.plural(summary['seeds'], 'seed')}"


def seeds_document(outcomes: Sequence[SeedResult]) -> dict[str, object]:
    return {"runs": [outcome.document() for outcome in outcomes], "summary": over_seeds(_returns(outcomes))}


def print_seeds(out: Terminal, outcomes: Sequence[SeedResult]) -> None:
    rows = []
    for outcome in outcomes:
        run = outcome.run
        state = Cell(run["state"], STATE_STYLES.get(run["state"], ""))
        rows.append([str(run["seed"]), state, f"{run['env_steps']:,}", text.number(run["eval_return"]), run["id"]])
    out.table(["seed", "state", "steps", "eval", "run"], rows)
    if returns := _returns(outcomes):
        out.line(summary_line(returns), "bold")
    first = outcomes[0].run  # all have its name
    where = f"{first['name']}{in_runs_dir(Path(first['path']).parent)}"
    is_left = any(outcome.run["state"] == RunState.INTERRUPTED for outcome in outcomes)
    out.line(f"go on with: rlctl resume {where}" if is_left else f"try next: rlctl plot {where}")


def _returns(outcomes: Sequence[SeedResult]) -> list[float]:
    return [outcome.run["eval_return"] for outcome in outcomes if outcome.summary is not None]
