"""`record`: what a trained agent does, as a dataset to learn from."""

from __future__ import annotations

from typing import Annotated

import typer

from rlstudio.cli.arguments.options import CheckpointChoice, Imports, Json, Run, RunsDir, Seed
from rlstudio.cli.screen.terminal import stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR


def record(
    run: Run,
    dataset: Annotated[
        str, typer.Option("--dataset", metavar="ID", help="Id of the new Minari dataset, such as cartpole/expert-v0.")
    ],
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=1_000_000, help="Episodes to record.")] = 50,
    checkpoint: CheckpointChoice = "last",
    seed: Seed = None,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Write greedy episodes of a run as a Minari dataset.

    \b
    rlctl record last --episodes 50 --dataset cartpole/expert-v0
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    import_modules(modules or (), runs_dir=runs_dir)
    folder = Workspace(runs_dir).folder_to_load(run)
    from rlstudio.experiment.analysis.dataset import record_run

    done = record_run(folder, dataset, episodes=episodes, seed=seed, checkpoint=checkpoint)
    if json:
        facts = {"dataset": dataset, "path": str(done.path), "episodes": done.episodes, "steps": done.steps}
        stdout().document({**facts, "return_mean": done.return_mean})
        return
    stdout().line(f"{dataset}: {done.episodes} episodes, {done.steps:,} steps, mean return {done.return_mean:,.1f}")
    stdout().line(f"  {done.path}")
