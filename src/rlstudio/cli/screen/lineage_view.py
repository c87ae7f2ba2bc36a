"""`show --lineage`: where a run comes from, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlstudio.cli.screen.describe import NOT_RECORDED
from rlstudio.cli.screen.terminal import STATE_STYLES, Terminal, stdout

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry, Workspace


def show_lineage(workspace: Workspace, entry: Entry, json: bool) -> None:
    from rlstudio.control.runs.documents import lineage_document
    from rlstudio.control.runs.relatives import relatives_of

    out = stdout()
    if json:
        out.document(lineage_document(workspace, entry))
        return
    recorded, events = entry.lineage(), entry.history()
    known = relatives_of(workspace.records, entry.run) if entry.run else []
    relatives = [(depth, workspace.entry(run)) for depth, run in known]
    for depth, relative in relatives:
        _print_relative(out, depth, relative, relative.id == entry.id)
    if not relatives:
        out.line(entry.id, "bold")
    out.line()
    facts = {name: value for name, value in recorded.items() if name != "packages"}  # hundreds; --json has them
    for label, value in _flat(facts):
        out.line(f"  {label:<24} {value}")
    if events:
        out.line()
        rows = [[event.at, event.state, event.reason, str(event.token), event.message] for event in events]
        out.table(["when", "state", "reason", "token", "message"], rows)


def _print_relative(out: Terminal, depth: int, entry: Entry, is_asked: bool) -> None:
    run, status = entry.run, entry.status
    branch = "   " * (depth - 1) + "└─ " if depth else ""
    origin = f" at {run.parent_step:,}" if run is not None and run.parent_step is not None else ""
    state = f"{status.state.lower()}{'' if entry.recorded else NOT_RECORDED}"
    mark = "  <- this one" if is_asked else ""
    line = f"{branch}{entry.id}{origin}  {status.name}  {state}, {status.env_steps:,} steps{mark}"
    out.line(line, "bold" if is_asked else STATE_STYLES.get(status.state, ""))


def _flat(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as dotted lines, in their order."""
    lines: list[tuple[str, str]] = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            lines += _flat(inner, f"{prefix}{name}.")
        else:
            leaf = " ".join(map(str, inner)) if isinstance(inner, list) else inner
            lines.append((f"{prefix}{name}", "-" if leaf is None else str(leaf)))
    return lines
