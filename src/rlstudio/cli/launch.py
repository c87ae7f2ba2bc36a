"""`launch`, `run` and `resume`: the commands that train."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli import completion
from rlstudio.cli.options import Imports, Json, Overrides, Quiet, RunsDir
from rlstudio.cli.runs_dir import DEFAULT_RUNS_DIR
from rlstudio.cli.source import Chosen, Request, choose
from rlstudio.cli.terminal import stdout
from rlstudio.cli.voice import Manner

if TYPE_CHECKING:
    from rlstudio.experiment.run_folder import RunFolder

MAX_SEEDS = 1000

Name = Annotated[str | None, typer.Option("--name", help="What the run is called.")]
MasterSeed = Annotated[int | None, typer.Option("--seed", help="Master seed, short for env.seed=N.")]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, max=MAX_SEEDS, help="Launch N runs one after the other, seed by seed.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the complete configuration; train and write nothing.")]


def launch(
    overrides: Overrides = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="The experiment.", autocompletion=completion.experiments),
    ] = None,
    algo: Annotated[
        str | None, typer.Option("--algo", help="Without a file: the algorithm.", autocompletion=completion.algos)
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", help="Without a file: the environment.", autocompletion=completion.envs)
    ] = None,
    name: Name = None,
    seed: MasterSeed = None,
    seeds: Seeds = 1,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Start a run, from a file or a preset.

    \b
    rlctl launch -f configs/ppo/cartpole.yaml train.lr=1e-3 env.num_envs=32
    rlctl launch --algo dqn --env CartPole-v1 --seeds 5
    """
    from rlstudio.cli.imports import import_modules

    request = Request(file, algo, env, overrides or (), modules or (), name, seed, seeds)
    import_modules(request.imports)
    chosen = choose(request)
    if dry_run:
        _rehearse(chosen, json)
        return 0
    from rlstudio.cli.training import run_seeds
    from rlstudio.experiment.launch import start

    starts = [partial(start, cfg, runs_dir) for cfg in chosen.experiments]
    return run_seeds(starts, chosen.origin, Manner(quiet, json))


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The experiment.", autocompletion=completion.experiments)],
    overrides: Overrides = None,
    name: Name = None,
    seed: MasterSeed = None,
    seeds: Seeds = 1,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Start a run from a file: the same as `launch -f FILE`."""
    return launch(overrides, file, None, None, name, seed, seeds, modules, runs_dir, dry_run, quiet, json)


def resume(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run; without it, the newest.", autocompletion=completion.runs),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="train.epochs=N", help="Go on to N epochs in all.")
    ] = None,
    allow_inexact: Annotated[
        bool, typer.Option("--allow-inexact", help="Go on even where the result will not be the same bits.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Go on with a run, bit for bit, or extend a finished one."""
    from rlstudio.experiment.run_folder import find_run

    given = [*([run] if run else []), *(overrides or [])]
    reference = "last" if not given or "=" in given[0] else given.pop(0)  # `rlctl resume train.epochs=100`
    folder = find_run(runs_dir, reference)
    return _continue(folder, given, allow_inexact, Manner(quiet, json))


def _continue(folder: RunFolder, overrides: list[str], allow_inexact: bool, manner: Manner) -> int:
    from rlstudio.cli.imports import import_modules
    from rlstudio.cli.training import run_seeds
    from rlstudio.experiment import launch as launching
    from rlstudio.experiment.load import load_imports

    import_modules(load_imports(folder))
    session = launching.resume(folder, overrides, allow_inexact=allow_inexact)
    origin = "resumed"
    if overrides:
        stretched = session.cfg.train.lr_schedule == "linear"
        origin += f", extended to {session.cfg.train.epochs} epochs"
        origin += " (the learning rate goes on along the longer line)" if stretched else ""
    return run_seeds([lambda: session], origin, manner)


def _rehearse(chosen: Chosen, json: bool) -> None:
    """What would run, after the same refusals that `start` makes."""
    from rlstudio.core.config import config_hash, to_yaml
    from rlstudio.experiment.build import build_env, build_trainer
    from rlstudio.experiment.machine import pick_device

    cfg = chosen.experiments[0]
    env = build_env(cfg)
    try:
        build_trainer(cfg, env, pick_device(cfg.runtime.device))
    finally:
        env.close()
    seeds = [experiment.env.seed for experiment in chosen.experiments]
    out = stdout()
    if json:
        config = cfg.model_dump(mode="json")
        out.document({"origin": chosen.origin, "config_hash": config_hash(cfg), "seeds": seeds, "config": config})
        return
    out.line(f"# {chosen.origin}")
    out.line(f"# config hash {config_hash(cfg)}, seeds {', '.join(map(str, seeds))}")
    out.raw(to_yaml(cfg))
