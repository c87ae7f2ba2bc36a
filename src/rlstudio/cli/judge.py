"""`eval` and `play`: what a trained policy earns, and how it looks. Neither changes the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from rlstudio.cli import text
from rlstudio.cli.options import CheckpointChoice, Imports, Json, RunOrBundle, RunsDir, Seed
from rlstudio.cli.runs_dir import DEFAULT_RUNS_DIR
from rlstudio.cli.terminal import stdout

if TYPE_CHECKING:
    from rlstudio.core.contracts import Agent
    from rlstudio.experiment.config import ExperimentConfig


class _Judged(NamedTuple):
    """A policy and where it was trained."""

    id: str
    agent: Agent
    cfg: ExperimentConfig
    env_steps: int


def evaluate(
    run: RunOrBundle,
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=100_000, help="Episodes to play.")] = 20,
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Evaluate the policy of a run or bundle: mean, IQM, 95 % interval."""
    loaded = _load(run, checkpoint, runs_dir, imports or ())
    from rlstudio.experiment.evaluate import evaluate as play_episodes

    used = loaded.cfg.env.seed if seed is None else seed
    evaluation = play_episodes(loaded.agent, loaded.cfg.env, episodes=episodes, seed=used)
    summary = evaluation.summary
    out = stdout()
    if json:
        told = {"id": loaded.id, "checkpoint": loaded.env_steps, "seed": used, "episodes": episodes}
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
    run: RunOrBundle,
    video: Annotated[Path, typer.Option("--video", "-o", metavar="FILE", help="Where the film goes: .mp4 or .webp.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=1000, help="Episodes to play.")] = 1,
    choose: Annotated[
        Literal["all", "best", "worst"], typer.Option("--choose", help="Film all of them, or only the best or worst.")
    ] = "all",
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Film the policy of a run or bundle. Needs no display."""
    from rlstudio.experiment.output_file import output_path
    from rlstudio.experiment.video import SUFFIXES, record

    output_path(video, SUFFIXES)  # a wrong name is said before torch is there
    loaded = _load(run, checkpoint, runs_dir, imports or ())
    used = loaded.cfg.env.seed if seed is None else seed
    film = record(loaded.agent, loaded.cfg.env, video, seed=used, episodes=episodes, choose=choose)
    out = stdout()
    if json:
        told = {"id": loaded.id, "checkpoint": loaded.env_steps, "seed": used, "path": str(film.path)}
        out.document({**told, "seeds": film.seeds, "returns": film.returns, "lengths": film.lengths})
        return
    returns = ", ".join(text.number(value) for value in film.returns)
    out.line(f"{film.path}: {sum(film.lengths):,} steps, return {returns}")


def _load(run: str, checkpoint: str, runs_dir: Path, imports: Sequence[str]) -> _Judged:
    from rlstudio.cli.imports import import_modules
    from rlstudio.experiment.bundle import is_bundle

    import_modules(imports)
    if is_bundle(run):
        return _load_bundle(run, checkpoint, imports)
    from rlstudio.control.home import Home

    folder = Home(runs_dir).folder_to_read(run)
    from rlstudio.experiment.load import load_imports, load_run

    import_modules(load_imports(folder))
    loaded = load_run(folder, checkpoint)
    return _Judged(folder.id, loaded.agent, loaded.cfg, loaded.env_steps)


def _load_bundle(path: str, checkpoint: str, imports: Sequence[str]) -> _Judged:
    from rlstudio.core.errors import UserError
    from rlstudio.experiment.bundle import open_bundle

    if checkpoint != "last":
        raise UserError(f"--checkpoint: the bundle {path} has one policy; leave it out")
    bundle = open_bundle(path)
    cfg, origin = bundle.experiment(tuple(imports)), bundle.spec.origin
    from rlstudio.experiment.machine import set_threads

    set_threads(cfg.runtime.threads)
    return _Judged(origin.run_id or bundle.spec.name, bundle.policy(), cfg, origin.checkpoint or 0)
