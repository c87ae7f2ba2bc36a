"""`migrate`: what an older RLStudio wrote, brought up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlstudio.cli.arguments.options import Json, RunsDir
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import RLStudioError, UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR


def migrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Run folders, bundles, experiment files.  [default: store and runs]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list; change nothing.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Find files of older versions and bring them up to date: store, runs, bundles, experiment files.

    \b
    rlctl migrate --dry-run
    rlctl migrate my.yaml bundles/cartpole
    """
    from rlstudio.control.runs.upgrade import parts
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    if not paths and workspace.is_empty:
        stdout().document([]) if json else stdout().line(f"no runs in {runs_dir} yet; there is nothing to migrate")
        return
    rows, problems, waiting = [], 0, 0
    for part in parts(workspace, paths or ()):
        done, problem = "", part.problem
        if part.bring is not None and not dry_run:
            try:
                done = part.bring()
            except RLStudioError as error:  # the others can be brought up to date all the same
                problem = str(error)
        waiting += part.bring is not None and dry_run
        problems += bool(problem)
        answer = done or problem or ("waits" if part.bring is not None else "up to date")
        rows.append({"kind": part.kind, "name": part.name, "status": part.status, "result": answer, "ok": not problem})
    if json:
        stdout().document(rows)
    else:
        header = ["kind", "name", "status", "result"]
        stdout().table(header, [[str(row[name]) for name in header] for row in rows])
        if waiting:
            again = " ".join(["rlctl migrate", *map(str, paths or ())])
            stdout().line(f"bring {waiting} up to date: {again}{in_runs_dir(runs_dir)}", "dim")
    if problems:
        raise UserError(f"{problems} of {len(rows)} could not be brought up to date; the table says why")
