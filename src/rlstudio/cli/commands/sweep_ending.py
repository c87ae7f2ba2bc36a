"""`sweep stop` and `sweep rm`: end a sweep together with its runs."""

from __future__ import annotations

from typing import Annotated

import typer

from rlstudio.cli.arguments.confirm import confirmed
from rlstudio.cli.arguments.options import Json, RunsDir, SweepName
from rlstudio.cli.arguments.sweeps import find_sweep
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR


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
    """Delete a sweep with all its runs. A living one is refused; versions in the registry stay."""
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
