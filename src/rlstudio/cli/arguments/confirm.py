"""Ask before something is deleted for good."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer

from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError


def confirmed(command: str, going: Iterable[str], question: str) -> bool:
    """List what goes, and ask; `command` begins the message where nobody can be asked."""
    if not sys.stdin.isatty():
        raise UserError(f"{command}: standard input is not a terminal, so it cannot ask before it deletes; give --yes")
    for line in going:
        stdout().line(f"  {line}")
    return typer.confirm(question)
