"""Which server a command line means: `--server URL` anywhere in it, or the variable `RLSTUDIO_SERVER`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SERVER_VARIABLE, CA_VARIABLE = "RLSTUDIO_SERVER", "RLSTUDIO_CA_FILE"
OPTIONS = ("--server", "--token-file", "--ca-file")
"""They belong to the program, and may stand before or behind the command."""


@dataclass(frozen=True)
class ServerChoice:
    url: str
    token_file: Path | None
    ca_file: Path | None
    is_typed: bool  # not only in the environment

    @property
    def where(self) -> str:
        """What a suggested command needs to find the same runs."""
        return f" --server {self.url}" if self.is_typed else ""


def split_server(arguments: Sequence[str]) -> tuple[list[str], ServerChoice | None]:
    """The arguments without ours, and the server; without a server all of them are the command's own."""
    rest: list[str] = []
    given: dict[str, str] = {}
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument == "--":
            rest += [argument, *left]
            break
        option, equals, value = argument.partition("=")
        if option not in OPTIONS:
            rest.append(argument)
            continue
        if not equals and not left:
            rest.append(argument)  # the parser says what is missing
            continue
        given[option] = value if equals else left.pop(0)
    typed, usual = given.get("--server"), os.environ.get(SERVER_VARIABLE)
    if typed is None and any(argument.partition("=")[0] == "--runs-dir" for argument in rest):
        usual = None  # a folder that is named counts more than the environment
    url = typed or usual
    if not url:
        return list(arguments), None
    ca_file = given.get("--ca-file") or os.environ.get(CA_VARIABLE)
    token_file = given.get("--token-file")
    return rest, ServerChoice(url, _path(token_file), _path(ca_file), typed is not None)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
