"""`ls`, `show`, `rm` and `adopt`: the runs of a store and their folders. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Json, Run, Runs, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import STATE_STYLES, Cell, stdout
from rlstudio.core.errors import Conflict, RunBusy
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.sweep.needed import Need
    from rlstudio.control.workspace import Entry

DEFAULT_LIMIT = 20


def ls(
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help=f"Newest runs to list; 0: all.  [default: {DEFAULT_LIMIT}]"),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """List the runs, newest first."""
    from rlstudio.cli.screen.describe import entry_document
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    count = limit if limit is not None else (0 if json else DEFAULT_LIMIT)
    entries = workspace.entries(count or None)
    out = stdout()
    if json:
        out.document([entry_document(entry) for entry in entries])
    elif not entries:
        out.line(f"no runs in {runs_dir} yet; start one with: rlctl launch -f configs/ppo/cartpole.yaml")
    else:
        out.table(["id", "name", "state", "age", "epoch", "steps", "return"], [_row(entry) for entry in entries])
        older = workspace.count() - len(entries)
        if older > 0:
            out.line(f"{older} older ones: rlctl ls --limit 0{in_runs_dir(runs_dir)}", "dim")


def _row(entry: Entry) -> list[str | Cell]:
    from rlstudio.cli.screen.describe import state_text

    status = entry.status
    return [
        status.id,
        status.name,
        Cell(state_text(entry), STATE_STYLES.get(status.state, "")),
        text.age(status.created_at),
        f"{status.epoch}/{status.total_epochs}",
        f"{status.env_steps:,}",
        text.number(status.eval_return),
    ]


def show(
    run: Run,
    lineage: Annotated[bool, typer.Option("--lineage", help="Where it comes from and what came of it.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Show one run: state, progress, evaluation, hashes, checkpoints."""
    from rlstudio.cli.screen.describe import entry_document, print_run, run_document
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    entry = workspace.find(run)
    if lineage:
        from rlstudio.cli.screen.lineage_view import show_lineage

        show_lineage(workspace, entry, json)
        return
    began_with = {"weights": entry.lineage().get("weights")}
    document = {**run_document(entry.status, entry.folder), **entry_document(entry), **began_with}
    if json:
        stdout().document(document)
    else:
        print_run(stdout(), document)


def adopt(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Run folders, here or elsewhere.")],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Take run folders into the store; one that lies elsewhere is copied here."""
    from rlstudio.control.runs.adopt import adopt_path
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    for folder in folders:
        run = adopt_path(workspace, folder)
        stdout().line(f"run {run.id}: adopted, {run.state}")


def rm(
    runs: Runs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also runs that a sweep needs; says what it loses.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> int:
    """Delete runs with all they hold. Refused: running ones, those that others were forked from, and those that a sweep
    needs."""
    from rlstudio.cli.arguments.confirm import confirmed
    from rlstudio.control.runs.remove import refuse_referred, remove
    from rlstudio.control.sweep.needed import needed_runs
    from rlstudio.control.workspace import Workspace
    from rlstudio.core.run_state import OWNED

    workspace = Workspace(runs_dir)
    workspace.reap()
    entries = {entry.id: entry for entry in (workspace.find(run) for run in runs)}
    needed = needed_runs(workspace.store, [entry.run for entry in entries.values() if entry.run])
    if not force:
        _refuse_needed(needed, runs_dir)  # first: to stop such a run would fail its trial
    for entry in entries.values():
        if entry.status.state in OWNED:
            raise RunBusy(
                f"run {entry.id}: is running; end it first with: rlctl stop {entry.id}{in_runs_dir(runs_dir)}"
            )
    refuse_referred(workspace, set(entries))
    lost = {run_id: f"; {need.lost}" for run_id, need in needed.items()}
    going = [f"{runs_dir / run_id}{lost.get(run_id, '')}" for run_id in entries]
    question = f"delete {'this run' if len(going) == 1 else f'these {len(going)} runs'} for good?"
    if not yes and not confirmed("rm", going, question):
        return 1
    for entry in entries.values():
        remove(workspace, entry)
        stdout().line(f"run {entry.id}: removed{lost.get(entry.id, '')}")
    return 0


def _refuse_needed(needed: Mapping[str, Need], runs_dir: Path) -> None:
    for run_id, need in needed.items():
        where = in_runs_dir(runs_dir)
        raise Conflict(
            f"run {run_id}: {need.why}; remove the whole sweep with: rlctl sweep rm {need.sweep}{where}, or only"
            f" this run with: rlctl rm {run_id} --force{where} ({need.lost})"
        )
