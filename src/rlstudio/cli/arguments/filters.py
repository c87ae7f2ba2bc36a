"""Which runs a command means that takes several: words and filters, the same options everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from rlstudio.cli.arguments import completion

GROUP_HELP = (
    "A group (the name that runs share), or one run: id, unique beginning or end of one, its folder, or `last`."
)

Groups = Annotated[
    list[str] | None, typer.Argument(metavar="[RUN]...", help=GROUP_HELP, autocompletion=completion.runs)
]
States = Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help="Only runs in this state.")]
Envs = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="ENV", help="Only runs on this environment.", autocompletion=completion.envs),
]
Algos = Annotated[
    list[str] | None,
    typer.Option("--algo", metavar="ALGO", help="Only runs of this algorithm.", autocompletion=completion.algos),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Only runs with this tag.")]
