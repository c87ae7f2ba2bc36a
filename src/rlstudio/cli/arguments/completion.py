"""What the shell offers on Tab: runs, algorithms, environments, checkpoints. Never imports torch, never complains,
and changes nothing."""

from __future__ import annotations

from pathlib import Path

import typer

from rlstudio.cli.screen.text import safe
from rlstudio.experiment.folder.runs_dir import usual_runs_dir

Offers = list[tuple[str, str]]


def runs(ctx: typer.Context, incomplete: str) -> Offers:
    """Names and ids, with what each run is."""
    from rlstudio.control.workspace import Workspace

    folder = ctx.params.get("runs_dir") or usual_runs_dir()
    offers: dict[str, str] = {}
    for status in (entry.status for entry in Workspace(Path(folder)).entries()):
        description = f"{status.state.lower()}, {status.algo} on {status.env_id}"
        offers.setdefault("last", f"the newest: {description}")
        offers.setdefault(status.name, description)
        offers.setdefault(status.id, description)
    return _starting(offers, incomplete)


def sweeps(ctx: typer.Context, incomplete: str) -> Offers:
    from rlstudio.control.sweep.sweeps import Sweeps
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(Path(ctx.params.get("runs_dir") or usual_runs_dir()))
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


def _starting(offers: dict[str, str], incomplete: str) -> Offers:
    return [(safe(name), safe(description)) for name, description in offers.items() if name.startswith(incomplete)]
