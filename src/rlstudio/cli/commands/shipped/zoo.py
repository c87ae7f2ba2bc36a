"""`zoo`: the trained policies that ship with RLStudio."""

from __future__ import annotations

from typing import Annotated

import typer

from rlstudio.cli.arguments.options import Json
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import stdout


def zoo(
    filter_text: Annotated[str, typer.Argument(metavar="TEXT", help="Only those with this text in name or env.")] = "",
    json: Json = False,
) -> None:
    """List the trained policies that ship with RLStudio, with their measured scores.

    \b
    rlctl zoo cartpole
    rlctl eval zoo:ppo/cartpole
    """
    from rlstudio.delivery.zoo import zoo_entries

    wanted = filter_text.lower()
    entries = [entry for entry in zoo_entries() if wanted in f"{entry.name} {entry.env}".lower()]
    out = stdout()
    if json:
        out.document([entry._asdict() for entry in entries])
    elif entries:
        rows = [
            [x.name, x.env, text.number(x.score), str(x.episodes), f"{x.env_steps:,}", text.size(x.size)]
            for x in entries
        ]
        out.table(["policy", "env", "score", "episodes", "trained steps", "size"], rows)
    else:
        out.line(f"no policy of the zoo has {filter_text!r} in its name or env; `rlctl zoo` lists all of them")
