"""A run as text: what `show` prints. As a JSON document it is made in `control.runs.looking.documents`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import with_runs_dir
from rlstudio.cli.screen.summary import workers_text
from rlstudio.cli.screen.terminal import STATE_STYLES, Terminal

NOT_RECORDED = " (not yet recorded)"
"""The process is gone and the store does not say so yet: reading never writes."""


def state_text(run: Mapping[str, Any]) -> str:
    """The state for a person, with its reason."""
    return f"{state_and_reason(run)}{'' if run.get('recorded', True) else NOT_RECORDED}"


def state_and_reason(run: Mapping[str, Any], mark: str = "") -> str:
    """A trial that its sweep gave up, or that waits for it, is not called paused: nobody is to resume it. `mark`: what
    stands behind the state."""
    reason = run.get("at_rung") or run["reason"]
    return f"{run['state']}{mark}{f': {reason}' if reason else ''}"


def _seeds(report: Mapping[str, object]) -> str | None:
    """The generators that the last session seeded, by the beginnings of their fingerprints."""
    parts = [f"{name} {str(report[name])[:8]}" for name in ("python", "numpy", "torch", "envs") if report.get(name)]
    return ", ".join(parts) or None


def _numerics(topology: Mapping[str, object] | None) -> str | None:
    """Which arithmetic the newest checkpoint was computed with; an older one may not say."""
    if not topology or "numerics" not in topology:
        return None
    return f"{topology.get('runtime.numerics', 'native')}, fingerprint {topology['numerics']}"


def _parent(run: Mapping[str, Any]) -> str | None:
    """What it began with: the state of another run, or only the weights of a bundle."""
    of_run = f"{run['parent_id']} at {run['parent_step']:,} steps" if run.get("parent_id") else None
    weights = run.get("weights")
    if not weights:
        return of_run
    known_as = weights.get("version") or weights["bundle"]
    of = f", of {of_run}" if of_run else f", {weights['kind']}"
    return f"the weights of {known_as} (sha256 {weights['sha256'][:12]}{of}); everything else began anew"


def _curriculum(standing: dict[str, Any] | None) -> str | None:
    from rlstudio.experiment.analysis.curriculum_standing import standing_text

    return None if standing is None else standing_text(standing)


def _in_folder(checkpoint: str, folder: str | None) -> str:
    """From the folder of the run, which stands above: a line of the table fits a terminal."""
    return checkpoint.removeprefix(f"{folder}/")


def print_run(out: Terminal, run: Mapping[str, Any], curve: str = "") -> None:
    """`curve`: its returns so far, in one line. A server does not say where a run lies: then there is no path."""
    path = run.get("path")
    out.line(f"{run['name']}  {run['id']}", "bold")
    out.line(state_text(run), STATE_STYLES.get(run["state"], ""))
    exact = "yes" if run["exact"] else f"no, {run['exact_reason']}"
    bounds = tuple(run["eval_interval"]) if run["eval_interval"] else None
    facts = {
        "handle": run.get("handle"),
        "tags": ", ".join(run.get("tags", ())),
        "note": run.get("note"),
        "message": with_runs_dir(run["message"], Path(path).parent) if path else run["message"],
        "algorithm": run["algo"],
        "environment": f"{run['env_id']}, seed {run['seed']}",
        "workers": workers_text(run["rollout_workers"]),
        "progress": f"epoch {run['epoch']}/{run['total_epochs']}, {run['env_steps']:,} environment steps,"
        f" {run['gradient_steps']:,} gradient steps",
        "curriculum": _curriculum(run.get("curriculum")),
        "training": f"return {text.number(run['train_return'])}" if run["train_return"] is not None else None,
        "evaluation": f"{text.number(run['eval_return'])}, 95 % interval {text.interval(bounds)}",
        "curve": curve,
        "exact resume": exact,
        "learners": (run["topology"] or {}).get("learners"),
        "numerics": _numerics(run["topology"]),
        "seeded": _seeds(run["seeds"]),
        "config hash": run["config_hash"],
        "state hash": run["state_hash"] or "-",
        "forked from": _parent(run),
        "owner": run.get("owner"),
        "attempt": run.get("attempt") if (run.get("attempt") or 0) > 1 else None,
        "created": f"{run['created_at']} ({text.age(run['created_at'])} ago)",
        "folder": path,
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
                _in_folder(entry.get("path", ""), path),
            ]
            for entry in run["checkpoints"]
        ]
        out.table(["checkpoint", "epoch", "size", "state hash", "path"], rows)
