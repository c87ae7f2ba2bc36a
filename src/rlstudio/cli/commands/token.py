"""`token`: who may call `rlctl serve`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rlstudio.cli.arguments.options import Json, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR
from rlstudio.server.http.roles import Role

if TYPE_CHECKING:
    from rlstudio.server.http.tokens import Tokens

Changed = TypeVar("Changed")

app = typer.Typer(rich_markup_mode=None)

STYLES = {"active": "green", "expired": "dim", "revoked": "dim"}
Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called, in `token ls` and in the audit log.")]


@app.callback()
def token() -> None:
    """Say who may call `serve`: tokens with a name, a role and an end."""


@app.command("add")
def add(
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="read: look; act: everything.")] = Role.READ,
    days: Annotated[
        float | None, typer.Option("--days", min=0, metavar="N", help="It expires after so many; else never.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Where the secret goes, for you alone; else it is printed."),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Make a token; its secret is shown this once.

    \b
    rlctl token add laptop --role act --token-file laptop.token
    rlctl token add grafana --days 90
    """
    from rlstudio.server.http.token_file import write_token

    made, secret = _recorded("POST", name, runs_dir, lambda tokens: tokens.add(name, role, days))
    if token_file is not None:
        write_token(token_file, secret)
    if json:
        secrets = {} if token_file is not None else {"secret": secret}
        stdout().document({**made.document(time.time()), **secrets})
        return
    stdout().line(f"token {name} with the role {role}: {f'in {token_file}' if token_file else secret}")


@app.command("ls")
def ls(runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """List tokens, without their secrets."""
    from rlstudio.control.workspace import Workspace
    from rlstudio.server.http.tokens import Tokens

    tokens, now = Tokens(Workspace(runs_dir).state_dir).listed(), time.time()
    if json:
        stdout().document({"items": [token.document(now) for token in tokens]})
        return
    if not tokens:
        stdout().line("no token; make one with: rlctl token add NAME")
        return
    rows: list[list[str | Cell]] = [
        [
            token.name,
            str(token.role),
            Cell(token.state(now), STYLES[token.state(now)]),
            text.duration(now - token.created),
            "" if token.expires is None else text.duration(max(0.0, token.expires - now)),
        ]
        for token in tokens
    ]
    stdout().table(["name", "role", "state", "age", "expires in"], rows)


@app.command("revoke")
def revoke(name: Name, runs_dir: RunsDir = DEFAULT_RUNS_DIR) -> None:
    """End a token: servers refuse it from the next request on."""
    _recorded("DELETE", name, runs_dir, lambda tokens: tokens.revoke(name))
    stdout().line(f"token {name}: revoked")


def _recorded(method: str, name: str, runs_dir: Path, change: Callable[[Tokens], Changed]) -> Changed:
    """In the audit log, as the same change over HTTP would be."""
    from rlstudio.control.workspace import Workspace
    from rlstudio.server.http.records.audit import AuditLog
    from rlstudio.server.http.tokens import Tokens

    state_dir = Workspace(runs_dir).state_dir
    audit, what = AuditLog(state_dir), ("rlctl", str(Role.ACT), method, f"/tokens/{name}")
    number = audit.begin(*what)
    changed = change(Tokens(state_dir))
    audit.end(number, *what, 200)
    return changed
