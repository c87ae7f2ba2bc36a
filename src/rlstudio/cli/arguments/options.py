"""Options and arguments that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import RUNS_DIR_VARIABLE

RUN_HELP = "Id, its handle or beginning, name, path, or `last`."
POLICY_HELP = f"{RUN_HELP[:-1]}; or the folder of a bundle; or MODEL:3, MODEL:production, MODEL:staging; or zoo:NAME."
LONGEST_STEP = 18
OVERRIDES_HELP = "Settings by their path in the file, for example train.lr=1e-3."

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", metavar="DIR", envvar=RUNS_DIR_VARIABLE, help="Folder of the runs.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the id of the run.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=completion.runs)]
RunOrBundle = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help=POLICY_HELP,
        autocompletion=completion.runs,
    ),
]
Runs = Annotated[list[str], typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=completion.runs)]
RunWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]...", help=f"{RUN_HELP[:-1]}; a name means all runs that have it.", autocompletion=completion.runs
    ),
]
"""Runs, groups or, with a filter, nothing: for `selected`."""

States = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only runs in this state.", autocompletion=completion.states),
]
Envs = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="ENV", help="Only runs on this environment.", autocompletion=completion.run_envs),
]
Algos = Annotated[
    list[str] | None,
    typer.Option("--algo", metavar="ALGO", help="Only runs of this algorithm.", autocompletion=completion.algos),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only runs with this tag.", autocompletion=completion.tags),
]
SweepName = Annotated[str, typer.Argument(metavar="SWEEP", help="Name of the sweep.", autocompletion=completion.sweeps)]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)]
ExperimentFile = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="FILE", help="The experiment.", autocompletion=completion.experiments),
]
PresetAlgo = Annotated[
    str | None, typer.Option("--algo", help="Without a file: the algorithm.", autocompletion=completion.algos)
]
PresetEnv = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ENV",
        help="Without a file: the environment, by its id or as FILE.py:Class.",
        autocompletion=completion.envs,
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module with environments, by its name or its file; remembered for runs that are"
        " launched with it. May be repeated.",
    ),
]
Notify = Annotated[
    str | None,
    typer.Option("--notify", metavar="COMMAND", help="A command that receives how it ended, as JSON on its input."),
]


def checkpoint_choice(value: str) -> str:
    """`last`, `best`, or a step of at most `LONGEST_STEP` ASCII digits (`isdigit` alone accepts other scripts)."""
    if value in ("last", "best") or (value.isascii() and value.isdigit() and len(value) <= LONGEST_STEP):
        return value
    raise UserError(f"checkpoint {value!r}: give last, best or a number of environment steps")


CheckpointChoice = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="last|best|STEP", help="Which weights of the run.", callback=checkpoint_choice
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed, instead of the run's own.")]
