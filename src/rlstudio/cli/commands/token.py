"""`token`: who may call `rlctl serve`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

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
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, in `token ls` and in the audit log.")]


@app.callback()
def token() -> None:
    """Manage who may call `serve`: tokens with a name, a role and an expiry date."""


@app.command("add")
def add(
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="read: look; act: everything.")] = Role.READ,
    days: Annotated[
        float | None, typer.Option("--days", min=0, metavar="N", help="Days until it expires; by default never.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="File for the secret, readable by you only; by default it is printed."
        ),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Create a token; its secret is shown only once.

    \b
    rlctl token add laptop --role act --token-file laptop.token
    rlctl token add grafana --days 90
    """
    from rlstudio.server.http.token_file import write_token

    made, secret = _recorded("POST", name, runs_dir, lambda tokens: tokens.add(name, role, days))
    if token_file is not None:
        write_token(token_file, secret)
    print_new({**made.document(time.time()), "secret": secret}, token_file, json)


@app.command("ls")
def ls(runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """List tokens, without their secrets."""
    from rlstudio.control.workspace import Workspace
    from rlstudio.server.http.tokens import Tokens

    print_tokens([token.document(time.time()) for token in Tokens(Workspace(runs_dir).state_dir).listed()], json)


@app.command("revoke")
def revoke(name: Name, runs_dir: RunsDir = DEFAULT_RUNS_DIR) -> None:
    """Revoke a token: servers refuse it from the next request on."""
    _recorded("DELETE", name, runs_dir, lambda tokens: tokens.revoke(name))
    print_revoked(name)


def print_new(token: Mapping[str, Any], file: Path | None, json: bool) -> None:
    """A token with its secret, which is not printed where it went into a file."""
    if json:
        stdout().document({key: value for key, value in token.items() if file is None or key != "secret"})
        return
    stdout().line(f"token {token['name']} with the role {token['role']}: {f'in {file}' if file else token['secret']}")


def print_tokens(tokens: Sequence[Mapping[str, Any]], json: bool, where: str = "") -> None:
    """`where`: what a suggested command needs to find the same server."""
    if json:
        stdout().document({"items": tokens})
        return
    if not tokens:
        stdout().line(f"no token; make one with: rlctl token add NAME{where}")
        return
    now = time.time()
    rows: list[list[str | Cell]] = [
        [
            token["name"],
            token["role"],
            Cell(token["state"], STYLES[token["state"]]),
            text.duration(now - token["created"]),
            "" if token["expires"] is None else text.duration(max(0.0, token["expires"] - now)),
        ]
        for token in tokens
    ]
    stdout().table(["name", "role", "state", "age", "expires in"], rows)


def print_revoked(name: str) -> None:
    stdout().line(f"token {name}: revoked")


def _recorded(method: str, name: str, runs_dir: Path, change: Callable[[Tokens], Changed]) -> Changed:
    """In the audit log, as the same change over HTTP would be."""
    from rlstudio.control.workspace import Workspace
    from rlstudio.server.http.records.audit import AuditLog
    from rlstudio.server.http.tokens import COMMAND_LINE, Tokens

    state_dir = Workspace(runs_dir).state_dir
    audit, what = AuditLog(state_dir), (COMMAND_LINE, str(Role.ACT), method, f"/tokens/{name}")
    number = audit.begin(*what)
    changed = change(Tokens(state_dir))
    audit.end(number, *what, 200)
    return changed
