"""`sweep --detach`, `logs`, `stop` and `rm`: a sweep in the background, and the end of one together with its runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.confirm import confirmed
from rlstudio.cli.arguments.options import Json, RunsDir, SweepName
from rlstudio.cli.arguments.sweeps import find_sweep
from rlstudio.cli.screen.runs_dir import in_runs_dir, short_path
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Workspace

POLL_SECONDS = 0.3


def detach(
    workspace: Workspace,
    name: str,
    max_concurrent: int | None = None,
    notify: Sequence[str] = (),
    *,
    take_over: bool = False,
    json: bool = False,
) -> int:
    """Drive a sweep that is in the store in the background, with `rlctl sweep --resume`; returns the exit code."""
    from rlstudio.control.sweep.background import log_path, resume_command, start_driver

    command = resume_command(workspace, name, max_concurrent, notify)
    sweep = start_driver(workspace, name, command, take_over=take_over)
    log, where, out = log_path(workspace, name), in_runs_dir(workspace.runs_dir), stdout()
    if json:
        out.document({"name": name, "state": sweep.current, "pid": sweep.process.pid, "log": str(log)})
        return 0
    out.line(f"sweep {name}: {sweep.current} in process {sweep.process.pid}, which prints to {short_path(log)}")
    out.line(f"follow it with: rlctl sweep logs -f {name}{where}", "dim")
    out.line(f"stop it with: rlctl sweep stop {name}{where}", "dim")
    return 0


def logs(
    name: SweepName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until no process runs the sweep.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Print the output of a sweep that was started with --detach."""
    from rlstudio.control.sweep.background import log_path
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    find_sweep(workspace, name)
    path = log_path(workspace, name)
    if not path.is_file():
        raise UserError(
            f"sweep {name}: has no log in {workspace.state_dir}, so it was not started there with --detach; see:"
            f" rlctl sweep show {name}{in_runs_dir(runs_dir)}"
        )
    with path.open(encoding="utf-8", errors="replace") as file:
        goes_on, begun = True, ""  # a line that was not written to its end yet
        while goes_on:
            goes_on = follow and find_sweep(workspace, name).is_driven
            *whole, begun = (begun + file.read()).split("\n")
            for line in whole if goes_on or not begun else [*whole, begun]:
                stdout().line(line)
            stdout().flush()
            if goes_on:
                time.sleep(POLL_SECONDS)


def stop(name: SweepName, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """Stop a sweep and pause its runs at their next safe point; `rlctl sweep --resume SWEEP` goes on."""
    from rlstudio.cli.commands.queue import wait_until_ended
    from rlstudio.control.sweep.ending import stop_sweep
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    find_sweep(workspace, name)
    entries = wait_until_ended(workspace, stop_sweep(workspace, name))
    state = find_sweep(workspace, name).current
    if json:
        stdout().document({"name": name, "state": state, "paused": [entry.id for entry in entries]})
        return
    runs = "1 run paused" if len(entries) == 1 else f"{len(entries)} runs paused"
    stdout().line(f"sweep {name}: {state}, {runs}; go on with: rlctl sweep --resume {name}{in_runs_dir(runs_dir)}")


def rm(
    name: SweepName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> int:
    """Delete a sweep with all its runs. A sweep that is running is refused; versions in the registry stay."""
    from rlstudio.control.sweep.ending import remove_sweep, runs_to_remove
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    find_sweep(workspace, name)
    going = [str(runs_dir / entry.id) for entry in runs_to_remove(workspace, name)]
    question = f"delete sweep {name} and {'its run' if len(going) == 1 else f'its {len(going)} runs'} for good?"
    if not yes and not confirmed("sweep rm", going, question):
        return 1
    for run_id in remove_sweep(workspace, name):
        stdout().line(f"run {run_id}: removed")
    stdout().line(f"sweep {name}: removed")
    return 0
