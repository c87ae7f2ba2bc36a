"""`fork`: a child of a run, from one of its checkpoints, or of a bundle, with settings of its own."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.command import command_words
from rlstudio.cli.arguments.options import (
    Imports,
    Json,
    Notify,
    Overrides,
    Quiet,
    RunOrBundle,
    RunsDir,
    checkpoint_choice,
)
from rlstudio.cli.commands.launch import Detach, EmptyReplay, print_queued
from rlstudio.cli.screen.run_output import OutputStyle
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Workspace
    from rlstudio.delivery.bundle import Bundle


def fork(
    run: RunOrBundle,
    overrides: Overrides = None,
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="last|best|STEP", help="Which checkpoint to start from.", callback=checkpoint_choice
        ),
    ] = "last",
    name: Annotated[
        str | None, typer.Option("--name", help="What the child is called.  [default: RUN's name with -fork]")
    ] = None,
    empty_replay: EmptyReplay = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    detach: Detach = False,
    quiet: Quiet = False,
    json: Json = False,
    notify: Notify = None,
) -> int:
    """Start a child run with other settings, from a checkpoint of a run or from the weights of a bundle or version.

    \b
    rlctl fork last train.lr=1e-4 train.epochs=100
    rlctl fork ppo_cartpole --at best env.seed=7 --name again --detach
    rlctl fork bundles/cartpole train.lr=1e-4  # its weights; all else begins anew
    """
    from rlstudio.control.registry.bundles import named_bundle
    from rlstudio.control.runs.adopt import known_run
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    command = command_words(notify)
    names = import_modules(modules or (), runs_dir=runs_dir)
    workspace = Workspace(runs_dir)
    style = OutputStyle(quiet, json)
    settings = [*(overrides or ()), *([] if name is None else [f"name={json_text.dumps(name)}"])]
    bundle = named_bundle(run, runs_dir)
    if bundle is not None:
        if at != "last" or empty_replay:
            raise UserError(f"{run}: a bundle has one policy and no replay; leave --at and --empty-replay out")
        return _fork_bundle(workspace, bundle, run, settings, names, detach, style, command)
    parent = known_run(workspace, run)
    from rlstudio.control.runs import fork as forking

    if detach:
        child = forking.fork_later(workspace, parent, at, settings, empty_replay=empty_replay, notify=command)
        return print_queued(workspace, [child], style)
    from rlstudio.cli.watch import run_alone

    session = forking.fork(workspace, parent, at, settings, empty_replay=empty_replay, notify=command)
    return run_alone(session, f"forked from {parent.id} at {session.status.env_steps:,} steps", style)


def _fork_bundle(
    workspace: Workspace,
    bundle: Bundle,
    given: str,
    overrides: Sequence[str],
    modules: Sequence[str],
    detach: bool,
    style: OutputStyle,
    notify: Sequence[str],
) -> int:
    from rlstudio.control.registry.records import is_reference
    from rlstudio.control.runs import fork_bundle as forking

    version = given if is_reference(given) else None
    if detach:
        child = forking.fork_bundle_later(workspace, bundle, overrides, imports=modules, version=version, notify=notify)
        return print_queued(workspace, [child], style)
    from rlstudio.cli.watch import run_alone

    session = forking.fork_bundle(workspace, bundle, overrides, imports=modules, version=version, notify=notify)
    return run_alone(session, f"with the weights of {given}, everything else anew", style)
