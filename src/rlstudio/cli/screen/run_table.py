"""Runs as a table that fits a terminal of 80 columns: what `ls` prints, and `show` for several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.describe import state_and_reason, state_text
from rlstudio.cli.screen.terminal import STATE_STYLES, Cell, Terminal

HEADER = ("run", "name", "algo", "seed", "state", "age", "epoch", "train", "eval")
SHRINKING = {"run": 8, "name": 12, "algo": 5, "state": 11}
"""What is cut to fit, down to so many characters; a state loses its reason before it loses itself."""

NOT_RECORDED = "*"


def print_runs(out: Terminal, runs: Sequence[Mapping[str, Any]]) -> None:
    """One line each: its handle; `train`, the return of its training episodes; `eval`, of its last evaluation."""
    out.table(HEADER, [_row(run) for run in runs], shrinking=SHRINKING)
    if not all(run["recorded"] for run in runs):
        out.line(
            f"{NOT_RECORDED} its process is gone, which is not yet recorded; do that with: rlctl queue --reap", "dim"
        )


def print_groups_of_runs(out: Terminal, runs: Sequence[Mapping[str, Any]]) -> None:
    """The runs, and below them the mean of each group that has several."""
    from rlstudio.cli.screen.seeds import summary_line

    print_runs(out, runs)
    for name in dict.fromkeys(run["name"] for run in runs):
        group = [run for run in runs if run["name"] == name]
        returns = [run["eval_return"] for run in group if run["eval_return"] is not None]
        if len(group) > 1 and returns:
            out.line(f"{name}: {summary_line(returns)}", "bold")


def print_queue(out: Terminal, queue: Mapping[str, Any], where: str) -> None:
    """What runs, what waits in its order, what is paused. `where`: what a suggested command needs to find the runs."""
    runs = [run for part in ("running", "not_recorded", "queued", "paused") for run in queue[part]]
    rows: list[list[str | Cell]] = [
        [
            run["id"],
            run["name"],
            Cell(state_text(run), STATE_STYLES.get(run["state"], "")),
            text.age(run["created_at"]),
            str(run.get("priority", 0)),
            run.get("owner", ""),
            f"{run['env_steps']:,}",
        ]
        for run in runs
    ]
    if rows:
        out.table(["id", "name", "state", "age", "priority", "owner", "steps"], rows)
    else:
        out.line("nothing runs and nothing waits; put a run into the queue with: rlctl launch -f FILE --detach")
    for worker in queue["workers"]:
        slots = f"cpu={worker['cpus']} gpu={worker['gpus']} memory_mb={worker['memory_mb']}"
        out.line(f"worker {worker['id']}: {slots}, {worker['steps_per_second']:,.0f} steps/s", "dim")
    if queue["not_recorded"]:
        out.line(f"record those whose process is gone: rlctl queue --reap{where}", "dim")
    if queue["queued"] and not queue["workers"]:
        out.line(f"no worker serves this queue; start one with: rlctl worker{where}", "yellow")


def _row(run: Mapping[str, Any]) -> list[str | Cell]:
    state = state_and_reason(run, "" if run["recorded"] else NOT_RECORDED)
    return [
        run["handle"],
        run["name"],
        run["algo"],
        str(run["seed"]),
        Cell(state, STATE_STYLES.get(run["state"], "")),
        text.age(run["created_at"]),
        f"{run['epoch']}/{run['total_epochs']}",
        text.number(run["train_return"]),
        text.number(run["eval_return"]),
    ]
