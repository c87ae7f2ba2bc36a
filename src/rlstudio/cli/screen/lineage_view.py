"""`show --lineage`: where a run comes from, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlstudio.cli.screen.terminal import STATE_STYLES, Terminal, stdout

if TYPE_CHECKING:
    from rlstudio.control.store.records import Run
    from rlstudio.control.workspace import Entry, Home


SHOWN = ("id", "name", "state", "env_steps", "parent_id", "parent_step", "sweep", "trial")


def show_lineage(home: Home, entry: Entry, json: bool) -> None:
    from rlstudio.control.runs.relatives import family
    from rlstudio.experiment.lineage.lineage import recorded_lineage

    recorded = home.store.lineage(entry.id) if entry.run else recorded_lineage(entry.folder) or {}
    relatives = family(home.store, entry.run) if entry.run else []
    events = home.store.events(entry.id) if entry.run else []
    out = stdout()
    if json:
        tree = [{"depth": depth, **{name: getattr(run, name) for name in SHOWN}} for depth, run in relatives]
        history = [vars(event) for event in events]
        out.document({"id": entry.id, "lineage": recorded, "family": tree, "history": history})
        return
    for depth, run in relatives:
        _print_relative(out, depth, run, run.id == entry.id)
    if not relatives:
        out.line(entry.id, "bold")
    out.line()
    for label, value in _flat(recorded):
        out.line(f"  {label:<24} {value}")
    if events:
        out.line()
        rows = [[event.at, event.state, event.reason, str(event.token), event.message] for event in events]
        out.table(["when", "state", "reason", "token", "message"], rows)


def _print_relative(out: Terminal, depth: int, run: Run, is_asked: bool) -> None:
    branch = "   " * (depth - 1) + "└─ " if depth else ""
    origin = f" at {run.parent_step:,}" if run.parent_step is not None else ""
    mark = "  <- this one" if is_asked else ""
    line = f"{branch}{run.id}{origin}  {run.name}  {run.state.lower()}, {run.env_steps:,} steps{mark}"
    out.line(line, "bold" if is_asked else STATE_STYLES.get(run.state, ""))


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as dotted lines, in their order."""
    lines: list[tuple[str, str]] = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            lines += _flat(inner, f"{prefix}{name}.")
        else:
            shown = " ".join(map(str, inner)) if isinstance(inner, list) else inner
            lines.append((f"{prefix}{name}", "-" if shown is None else str(shown)))
    return lines
