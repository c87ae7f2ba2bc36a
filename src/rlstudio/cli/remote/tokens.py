"""`token`: who may call a server, said by somebody who may."""

from __future__ import annotations

from rlstudio.cli.commands.token import print_new, print_revoked, print_tokens
from rlstudio.client import Client
from rlstudio.server.http.roles import Role


def add(client: Client, name: str, role: Role, days: float | None, json: bool) -> None:
    print_new(client.tokens.add(name, role.value, days), None, json)


def ls(client: Client, json: bool, where: str) -> None:
    print_tokens(client.tokens.list(), json, where)


def revoke(client: Client, name: str) -> None:
    client.tokens.revoke(name)
    print_revoked(name)
