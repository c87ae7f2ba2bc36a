"""Runs as a table that fits a terminal of 80 columns: what `ls` prints, and `show` for several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import STATE_STYLES, Cell, Terminal

if TYPE_CHECKING:
    from rlstudio.control.references import References
    from rlstudio.control.workspace import Entry

HEADER = ("run", "name", "algo", "seed", "state", "age", "epoch", "train", "eval")
SHRINKING = {"run": 8, "name": 12, "algo": 5, "state": 11}
"""What is cut to fit, down to so many characters; a state loses its reason before it loses itself."""

NOT_RECORDED = "*"


def print_runs(out: Terminal, entries: Sequence[Entry], references: References) -> None:
    """One line each: its handle; `train`, the return of its training episodes; `eval`, of its last evaluation."""
    out.table(HEADER, [_row(entry, references.handle(entry.id)) for entry in entries], shrinking=SHRINKING)
    if not all(entry.recorded for entry in entries):
        out.line(
            f"{NOT_RECORDED} its process is gone, which is not yet recorded; do that with: rlctl queue --reap", "dim"
        )


def _row(entry: Entry, handle: str) -> list[str | Cell]:
    status = entry.status
    reason = f": {status.reason}" if status.reason else ""
    state = f"{status.state}{'' if entry.recorded else NOT_RECORDED}{reason}"
    return [
        handle,
        status.name,
        status.algo,
        str(status.seed),
        Cell(state, STATE_STYLES.get(status.state, "")),
        text.age(status.created_at),
        f"{status.epoch}/{status.total_epochs}",
        text.number(status.train_return),
        text.number(status.eval_return),
    ]
