"""The results of several seeds of one experiment, as a table and as one mean with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import STATE_STYLES, Cell, Terminal

if TYPE_CHECKING:
    from rlstudio.experiment.judging.evaluate import Evaluation


@dataclass
class SeedResult:
    """How one run ended. `code` 0 means completed."""

    run: dict[str, Any]
    evaluation: Evaluation | None = None
    code: int = 0
    goes_on: bool = True

    def document(self) -> dict[str, object]:
        summary = None if self.evaluation is None else self.evaluation.summary.to_json()
        return {**self.run, "evaluation": summary}


def over_seeds(returns: Sequence[float]) -> dict[str, float] | None:
    """Interquartile mean of the seeds' mean returns, with its 95 % bootstrap interval; None without any."""
    from rlstudio.core.rng import Rng
    from rlstudio.ops.statistics import bootstrap_interval, iqm

    if not returns:
        return None
    low, high = bootstrap_interval(returns, Rng(0, "cli/seeds").generator(), statistic=iqm)
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
    out.table(["seed", "state", "steps", "return", "run"], rows)
    if returns := _returns(outcomes):
        out.line(summary_line(returns), "bold")
    first = outcomes[0].run  # all have its name
    out.line(f"try next: rlctl plot {first['name']}{in_runs_dir(Path(first['path']).parent)}")


def _returns(outcomes: Sequence[SeedResult]) -> list[float]:
    return [outcome.run["eval_return"] for outcome in outcomes if outcome.evaluation is not None]
