"""A run as a JSON document and as text: what `show`, `launch --json` and `resume --json` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlstudio.cli import text
from rlstudio.cli.terminal import STATE_STYLES, Terminal

if TYPE_CHECKING:
    from rlstudio.experiment.run_folder import RunFolder


def run_document(folder: RunFolder) -> dict[str, Any]:
    """The status with where the run lies and its checkpoints, oldest first."""
    from rlstudio.experiment.checkpoint import Checkpoints
    from rlstudio.experiment.manifest import folder_name

    status = folder.read_status().to_json()
    infos = reversed(Checkpoints(folder.path, folder.id, lease=None).list())
    status["path"] = str(folder.path)
    status["checkpoints"] = [
        {
            "step": info.step,
            "epoch": info.fields.get("epoch"),
            "state_hash": info.state_hash,
            "exact": info.fields.get("exact"),
            "path": str(folder.path / folder_name(info.step)),
            "size": sum(file.size for file in info.files.values()) + sum(ref.size for ref in info.segments),
        }
        for info in infos
    ]
    return status


def print_run(out: Terminal, run: dict[str, Any]) -> None:
    state = run["state"]
    out.line(f"{run['name']}  {run['id']}", "bold")
    out.line(f"{state}{': ' if run['reason'] else ''}{run['reason']}", STATE_STYLES.get(state, ""))
    exact = "yes" if run["exact"] else f"no, {run['exact_reason']}"
    bounds = tuple(run["eval_interval"]) if run["eval_interval"] else None
    facts = {
        "message": run["message"],
        "algorithm": run["algo"],
        "environment": f"{run['env_id']}, seed {run['seed']}",
        "progress": f"epoch {run['epoch']}/{run['total_epochs']}, {run['env_steps']:,} environment steps,"
        f" {run['gradient_steps']:,} gradient steps",
        "evaluation": f"{text.number(run['eval_return'])}, 95 % interval {text.interval(bounds)}",
        "exact resume": exact,
        "config hash": run["config_hash"],
        "state hash": run["state_hash"] or "-",
        "created": f"{run['created_at']} ({text.age(run['created_at'])} ago)",
        "folder": run["path"],
    }
    for label, value in facts.items():
        if value:
            out.line(f"  {label:<13} {value}")
    if run["checkpoints"]:
        out.line()
        rows = [
            [
                f"{entry['step']:,}",
                str(entry["epoch"]),
                text.size(entry["size"]),
                entry["state_hash"][:12],
                entry["path"],
            ]
            for entry in run["checkpoints"]
        ]
        out.table(["checkpoint", "epoch", "size", "state hash", "path"], rows)
