"""`show --lineage`: where a run comes from, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstudio.cli.screen.describe import NOT_RECORDED
from rlstudio.cli.screen.terminal import STATE_STYLES, Terminal


def print_lineage(out: Terminal, document: Mapping[str, Any]) -> None:
    for relative in document["relatives"]:
        _print_relative(out, relative, relative["id"] == document["id"])
    if not document["relatives"]:
        out.line(document["id"], "bold")
    out.line()
    # Packages are hundreds of lines; --json has them.
    facts = {name: value for name, value in document["lineage"].items() if name != "packages"}
    for label, value in _flat(facts):
        out.line(f"  {label:<24} {value}")
    if document["history"]:
        out.line()
        rows = [
            [event["at"], event["state"], event["reason"], str(event["token"]), event["message"]]
            for event in document["history"]
        ]
        out.table(["when", "state", "reason", "token", "message"], rows)


def _print_relative(out: Terminal, run: Mapping[str, Any], is_asked: bool) -> None:
    branch = "   " * (run["depth"] - 1) + "└─ " if run["depth"] else ""
    origin = f" at {run['parent_step']:,}" if run["parent_step"] is not None else ""
    state = f"{run['state'].lower()}{'' if run['recorded'] else NOT_RECORDED}"
    mark = "  <- this one" if is_asked else ""
    line = f"{branch}{run['id']}{origin}  {run['name']}  {state}, {run['env_steps']:,} steps{mark}"
    out.line(line, "bold" if is_asked else STATE_STYLES.get(run["state"], ""))


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
