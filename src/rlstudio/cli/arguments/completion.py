"""What the shell offers on Tab: runs, algorithms, environments, checkpoints. Never imports torch, never complains,
and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rlstudio.cli.screen.text import safe
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.runs_dir import usual_runs_dir

if TYPE_CHECKING:
    from rlstudio.control.workspace import Workspace

Offers = list[tuple[str, str]]


def runs(ctx: typer.Context, incomplete: str) -> Offers:
    """Names and handles, with what each run is; ids to those who have begun to type one."""
    workspace = _workspace(ctx)
    references = workspace.references()
    offers: dict[str, str] = {}
    for status in (entry.status for entry in workspace.entries()):
        description = f"{status.state.lower()}, {status.algo} on {status.env_id}, seed {status.seed}"
        group = references.groups.get(status.name, ())
        offers.setdefault("last", f"the newest: {description}")
        offers.setdefault(status.name, f"{len(group)} runs" if len(group) > 1 else description)
        offers.setdefault(references.handle(status.id), f"{status.name}: {description}")
        if incomplete:
            offers.setdefault(status.id, description)
    return _starting(offers, incomplete)


def states(incomplete: str) -> Offers:
    return _starting({state.lower(): "" for state in RunState}, incomplete)


def run_envs(ctx: typer.Context, incomplete: str) -> Offers:
    """The environments of the runs that are here."""
    return _starting({entry.status.env_id: "" for entry in _workspace(ctx).entries()}, incomplete)


def tags(ctx: typer.Context, incomplete: str) -> Offers:
    runs = [entry.run for entry in _workspace(ctx).entries() if entry.run is not None]
    return _starting({tag: "" for run in runs for tag in run.tags}, incomplete)


def sweeps(ctx: typer.Context, incomplete: str) -> Offers:
    from rlstudio.control.sweep.sweeps import Sweeps

    workspace = _workspace(ctx)
    stored = [] if workspace.is_empty else Sweeps(workspace.records.database).all()
    return _starting({sweep.name: sweep.current.lower() for sweep in stored}, incomplete)


def algos(incomplete: str) -> Offers:
    from rlstudio.core.catalog import ALGOS

    return _starting({name: ALGOS.summary(name) for name in ALGOS.names()}, incomplete)


def envs(incomplete: str) -> Offers:
    from rlstudio.experiment.training.environments import known_envs

    return _starting({env.id: env.origin for env in known_envs()}, incomplete)


def experiments(incomplete: str) -> Offers:
    """The shipped experiments, and the YAML files and folders below what is typed."""
    from rlstudio.experiment.config.presets import FOLDER, shipped_files

    shipped = {f"configs/{path.relative_to(FOLDER).as_posix()}": "shipped with RLStudio" for path in shipped_files()}
    return _starting(shipped | _files(incomplete), incomplete)


def _files(incomplete: str) -> dict[str, str]:
    above, _, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(above or ("/" if incomplete.startswith("/") else ".")).iterdir())
    except OSError:
        return {}
    prefix = f"{above}/" if "/" in incomplete else ""
    named = {path: f"{prefix}{path.name}" for path in entries if path.name.startswith(start)}
    files = {name: "" for path, name in named.items() if path.suffix in (".yaml", ".yml")}
    return files | {f"{name}/": "" for path, name in named.items() if path.is_dir() and not path.name.startswith(".")}


def _workspace(ctx: typer.Context) -> Workspace:
    from rlstudio.control.workspace import Workspace

    return Workspace(Path(ctx.params.get("runs_dir") or usual_runs_dir()))


def _starting(offers: dict[str, str], incomplete: str) -> Offers:
    return [(safe(name), safe(description)) for name, description in offers.items() if name.startswith(incomplete)]
