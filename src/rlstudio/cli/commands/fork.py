"""`fork`: a child of a run, from one of its checkpoints and with settings of its own."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer

from rlstudio.cli.arguments.options import Imports, Json, Overrides, Quiet, Run, RunsDir, checkpoint_choice
from rlstudio.cli.commands.launch import Detach, EmptyReplay, print_queued
from rlstudio.cli.screen.run_output import OutputStyle
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR


def fork(
    run: Run,
    overrides: Overrides = None,
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="last|best|STEP", help="Which checkpoint to begin at.", callback=checkpoint_choice
        ),
    ] = "last",
    name: Annotated[
        str | None, typer.Option("--name", help="What the child is called.  [default: RUN's, -fork]")
    ] = None,
    empty_replay: EmptyReplay = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    detach: Detach = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Start a child of a run, from a checkpoint and with other settings.

    \b
    rlctl fork last train.lr=1e-4 train.epochs=100
    rlctl fork ppo_cartpole --at best env.seed=7 --name again --detach
    """
    from rlstudio.control.runs.adopt import known_run
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    import_modules(modules or (), runs_dir=runs_dir)
    workspace = Workspace(runs_dir)
    parent = known_run(workspace, run)
    style = OutputStyle(quiet, json)
    settings = [*(overrides or ()), *([] if name is None else [f"name={json_text.dumps(name)}"])]
    from rlstudio.control.runs import fork as forking

    if detach:
        child = forking.fork_later(workspace, parent, at, settings, empty_replay=empty_replay)
        return print_queued(workspace, [child], style)
    from rlstudio.cli.watch import run_alone

    session = forking.fork(workspace, parent, at, settings, empty_replay=empty_replay)
    return run_alone(session, f"forked from {parent.id} at {session.status.env_steps:,} steps", style)
