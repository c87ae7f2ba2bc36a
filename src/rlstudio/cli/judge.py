"""`eval` and `play`: what a trained policy earns, and how it looks. Neither changes the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlstudio.cli import text
from rlstudio.cli.options import CheckpointChoice, Json, Run, RunsDir, Seed
from rlstudio.cli.runs_dir import DEFAULT_RUNS_DIR
from rlstudio.cli.terminal import stdout

if TYPE_CHECKING:
    from rlstudio.experiment.load import LoadedAgent
    from rlstudio.experiment.run_folder import RunFolder


def evaluate(
    run: Run,
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=100_000, help="Episodes to play.")] = 20,
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Evaluate the policy of a run: mean, IQM, 95 % interval."""
    folder, loaded = _load(run, checkpoint, runs_dir)
    from rlstudio.experiment.evaluate import evaluate as play_episodes

    used = loaded.cfg.env.seed if seed is None else seed
    evaluation = play_episodes(loaded.agent, loaded.cfg.env, episodes=episodes, seed=used)
    summary = evaluation.summary
    out = stdout()
    if json:
        told = {"id": folder.id, "checkpoint": loaded.env_steps, "seed": used, "episodes": episodes}
        out.document({**told, **evaluation.to_json()})
        return
    out.line(
        f"{loaded.cfg.name} at {loaded.env_steps:,} steps on {evaluation.env_id}, {episodes} episodes, seed {used}"
    )
    out.line(
        f"  mean      {text.number(summary.mean)}, 95 % interval {text.interval((summary.ci_low, summary.ci_high))}"
    )
    out.line(f"  IQM       {text.number(summary.iqm)}, median {text.number(summary.median)}")
    out.line(f"  spread    {text.number(summary.std)}, from {text.number(summary.min)} to {text.number(summary.max)}")
    out.line(f"  length    {text.number(sum(evaluation.lengths) / len(evaluation.lengths))} steps")


def play(
    run: Run,
    video: Annotated[Path, typer.Option("--video", "-o", metavar="FILE", help="Where the film goes: .mp4 or .webp.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=1000, help="Episodes to play.")] = 1,
    choose: Annotated[
        Literal["all", "best", "worst"], typer.Option("--choose", help="Film all of them, or only the best or worst.")
    ] = "all",
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Film the policy of a run. Needs no display."""
    from rlstudio.experiment.output_file import output_path
    from rlstudio.experiment.video import SUFFIXES, record

    output_path(video, SUFFIXES)  # a wrong name is said before torch is there
    folder, loaded = _load(run, checkpoint, runs_dir)
    used = loaded.cfg.env.seed if seed is None else seed
    film = record(loaded.agent, loaded.cfg.env, video, seed=used, episodes=episodes, choose=choose)
    out = stdout()
    if json:
        told = {"id": folder.id, "checkpoint": loaded.env_steps, "seed": used, "path": str(film.path)}
        out.document({**told, "seeds": film.seeds, "returns": film.returns, "lengths": film.lengths})
        return
    returns = ", ".join(text.number(value) for value in film.returns)
    out.line(f"{film.path}: {sum(film.lengths):,} steps, return {returns}")


def _load(run: str, checkpoint: str, runs_dir: Path) -> tuple[RunFolder, LoadedAgent]:
    from rlstudio.cli.imports import import_modules
    from rlstudio.control.home import Home

    folder = Home(runs_dir).folder_to_read(run)
    from rlstudio.experiment.load import load_imports, load_run

    import_modules(load_imports(folder))
    return folder, load_run(folder, checkpoint)
