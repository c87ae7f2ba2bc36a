"""`launch`, `run` and `resume`: the commands that train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.command import command_words
from rlstudio.cli.arguments.experiments import Chosen, ExperimentRequest, choose
from rlstudio.cli.arguments.options import (
    Algos,
    Envs,
    ExperimentFile,
    Imports,
    Json,
    Notify,
    Overrides,
    PresetAlgo,
    PresetEnv,
    Quiet,
    RunsDir,
    States,
    Tags,
)
from rlstudio.cli.arguments.own_env import import_typed
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen.run_output import OutputStyle
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.store.records import RunRow
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.experiment import ExperimentConfig

MAX_SEEDS = 1000

Name = Annotated[str | None, typer.Option("--name", help="What the run is called.")]
MasterSeed = Annotated[int | None, typer.Option("--seed", help="Master seed, short for env.seed=N.")]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds", min=1, max=MAX_SEEDS, help="Launch N runs with successive seeds, in parallel as cores are free."
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Put it into the queue and return at once; it runs in the background.")
]
Key = Annotated[
    str | None, typer.Option("--key", help="With --detach: launched twice with the same key, it still runs only once.")
]
EmptyReplay = Annotated[
    bool, typer.Option("--empty-replay", help="Continue with an empty replay buffer if it is damaged; not exact.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the complete configuration; train and write nothing.")]


def launch(
    overrides: Overrides = None,
    file: ExperimentFile = None,
    algo: PresetAlgo = None,
    env: PresetEnv = None,
    name: Name = None,
    seed: MasterSeed = None,
    seeds: Seeds = 1,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    dry_run: DryRun = False,
    detach: Detach = False,
    key: Key = None,
    quiet: Quiet = False,
    json: Json = False,
    notify: Notify = None,
) -> int:
    """Start a run, from a file or a preset.

    \b
    rlctl launch -f configs/ppo/cartpole.yaml train.lr=1e-3 env.num_envs=32
    rlctl launch --algo dqn --env CartPole-v1 --seeds 5 --detach
    rlctl launch --algo ppo --env drone_env.py:Drone env.max_episode_steps=200
    """
    names, env, changed = import_typed(modules, env, overrides, runs_dir)
    chosen = choose(ExperimentRequest(file, algo, env, changed, names, name, seed, seeds))
    command = command_words(notify)
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    if dry_run:
        _dry_run(chosen, json)
        return 0
    # Runs of a cluster are started by a worker, wherever they are launched.
    if detach or key is not None or chosen.experiments[0].resources.backend != "local":
        return _enqueue(workspace, chosen.experiments, key, OutputStyle(quiet, json), command)
    from rlstudio.cli.watch import run_alone, run_group
    from rlstudio.control.runs.start import enqueue_seeds, start_session
    from rlstudio.experiment.training.elsewhere.ranks import is_follower

    if seeds > 1:
        queued = enqueue_seeds(workspace, chosen.experiments, notify=command)
        return run_group(workspace, queued, chosen.origin, OutputStyle(quiet, json))
    if is_follower() and _follow_launched(chosen.experiments[0]):
        return 0
    session = start_session(workspace, *chosen.experiments, notify=command)
    return run_alone(session, chosen.origin, OutputStyle(quiet, json))


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The experiment.", autocompletion=completion.experiments)],
    overrides: Overrides = None,
    name: Name = None,
    seed: MasterSeed = None,
    seeds: Seeds = 1,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    dry_run: DryRun = False,
    detach: Detach = False,
    key: Key = None,
    quiet: Quiet = False,
    json: Json = False,
    notify: Notify = None,
) -> int:
    """Start a run from a file: the same as `launch -f FILE`."""
    more = (seeds, modules, runs_dir, dry_run, detach, key, quiet, json, notify)
    return launch(overrides, file, None, None, name, seed, *more)


def resume(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]... [train.epochs=N]",
            help="Runs, or names of several; by default the newest. train.epochs=N: to N epochs in all.",
            autocompletion=completion.runs,
        ),
    ] = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    allow_inexact: Annotated[
        bool, typer.Option("--allow-inexact", help="Continue even if the result will not be bit for bit the same.")
    ] = False,
    empty_replay: EmptyReplay = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    detach: Detach = False,
    quiet: Quiet = False,
    json: Json = False,
    notify: Notify = None,
) -> int:
    """Continue a run, bit for bit, or extend a finished one. A paused run goes back to its place in the queue. The name
    of several runs means those that are not done."""
    from rlstudio.control.runs.adopt import known_run
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    command = command_words(notify)
    names = import_modules(modules or (), runs_dir=runs_dir)
    overrides = [word for word in words or () if "=" in word]
    selection = Selection([word for word in words or () if "=" not in word], states, envs, algos, tags)
    if not selection.words and not selection.filters:
        selection = Selection(["last"])
    workspace = Workspace(runs_dir)
    entries = selection.acting_on(workspace)
    accepted = {"allow_inexact": allow_inexact, "empty_replay": empty_replay}
    for name in [name for name, is_given in accepted.items() if is_given and (detach or len(entries) > 1)]:
        option, other = f"--{name.replace('_', '-')}", "--detach" if detach else "several runs"
        raise UserError(f"{option} with {other}: accept it where you can see it; leave one of them out")
    style = OutputStyle(quiet, json)
    if len(entries) > 1:
        from rlstudio.control.queue.run_group import requeue_group

        failed_too = bool(states) or not selection.is_group(entries)
        queued = requeue_group(workspace, entries, overrides, imports=names, notify=command, also_failed=failed_too)
        if detach:
            return print_queued(workspace, queued, style)
        from rlstudio.cli.watch import run_group

        return run_group(workspace, queued, "resumed", style)
    known = known_run(workspace, entries[0].id)
    # A paused run has a place in the queue; what --detach cannot accept is accepted here, in the foreground.
    if detach or (known.is_paused and not any(accepted.values())):
        from rlstudio.control.runs.start import requeue

        return print_queued(workspace, [requeue(workspace, known, overrides, imports=names, notify=command)], style)
    return _continue(workspace, known, overrides, accepted, style, command)


def _continue(
    workspace: Workspace,
    run: RunRow,
    overrides: list[str],
    accepted: dict[str, bool],
    style: OutputStyle,
    notify: Sequence[str],
) -> int:
    from rlstudio.cli.watch import run_alone
    from rlstudio.control.runs.start import resume_session
    from rlstudio.experiment.training.elsewhere.ranks import is_follower

    if is_follower() and _follow_resumed(workspace, run):
        return 0
    session = resume_session(workspace, run, overrides, **accepted, notify=notify)
    origin = "resumed"
    if overrides:
        stretched = getattr(session.cfg.train, "lr_schedule", None) == "linear"
        origin += f", extended to {session.cfg.train.epochs} epochs"
        origin += " (the learning rate now reaches zero at the new end)" if stretched else ""
    return run_alone(session, origin, style)


def _follow_launched(cfg: ExperimentConfig) -> bool:
    """As a rank of torchrun other than 0: what rank 0 wants. False where the run has one learner."""
    from rlstudio.experiment.training.rank_process import follow_torchrun

    return follow_torchrun(cfg)


def _follow_resumed(workspace: Workspace, run: RunRow) -> bool:
    """The same, of a run that goes on."""
    from rlstudio.control.runs.folders import folder_of
    from rlstudio.experiment.run.load import read_config

    workspace.import_consented(run)
    return _follow_launched(read_config(folder_of(workspace, run)))


def _enqueue(
    workspace: Workspace,
    experiments: list[ExperimentConfig],
    key: str | None,
    style: OutputStyle,
    notify: Sequence[str],
) -> int:
    from rlstudio.control.runs.start import enqueue

    queued = []
    for index, cfg in enumerate(experiments):
        own = key if key is None or len(experiments) == 1 else f"{key}/{index}"
        queued.append(enqueue(workspace, cfg, key=own, notify=notify))
    return print_queued(workspace, queued, style)


def print_queued(workspace: Workspace, queued: list[RunRow], style: OutputStyle) -> int:
    """Print the queued runs, after starting a worker if none serves the queue. Returns the exit code."""
    from rlstudio.control.queue.service import ensure_worker
    from rlstudio.control.runs.looking.documents import entry_document

    ensure_worker(workspace)
    out = stdout()
    where = in_runs_dir(workspace.runs_dir)
    if style.json:
        out.document([entry_document(workspace.find(run.id)) for run in queued])
        return 0
    for run in queued:
        line = f"run {run.id}: {run.state}; follow it with: rlctl logs -f {run.id}{where}"
        if run.state == RunState.INTERRUPTED and run.is_at_rung:
            line = f"run {run.id}: {run.state}; its sweep {run.sweep} lets it go on"
        out.line(run.id if style.quiet else line)
    if not style.quiet:
        _say_what_is_too_large(workspace, queued)
    return 0


def _say_what_is_too_large(workspace: Workspace, queued: list[RunRow]) -> None:
    """Runs of this queue's own workers; a cluster has more than this machine."""
    from rlstudio.control.queue.resources_of_runs import KnownResources
    from rlstudio.control.store.resources import of_this_machine

    here, known = of_this_machine(), KnownResources(workspace.store)
    for run in queued:
        lacking = here.lacking(run)
        if lacking and known.of(run).backend == "local":
            wants = f"asks for more than this machine has ({lacking})"
            stdout().line(f"run {run.id}: {wants}; it waits for a worker on a larger machine", "yellow")


def _dry_run(chosen: Chosen, json: bool) -> None:
    """Print what would run, after the same checks that `launch` makes."""
    from rlstudio.control.runs.start import check
    from rlstudio.core.config import config_hash, to_yaml

    cfg = chosen.experiments[0]
    check(cfg)
    seeds = [experiment.env.seed for experiment in chosen.experiments]
    out = stdout()
    if json:
        config = cfg.model_dump(mode="json")
        out.document({"origin": chosen.origin, "config_hash": config_hash(cfg), "seeds": seeds, "config": config})
        return
    out.line(f"# {chosen.origin}")
    out.line(f"# config hash {config_hash(cfg)}, seeds {', '.join(map(str, seeds))}")
    out.raw(to_yaml(cfg))
