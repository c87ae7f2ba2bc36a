"""The real parser of `rlctl`, without running anything: whether a line can be typed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from rlstudio.cli.app import COMMANDS, application
from rlstudio.cli.arguments.bare_options import with_values

SHELL = {"|", ">", ">>", "&&", ";", "&"}
ACTING = {"--install-completion", "--show-completion"}
"""Options that already do something when they are parsed."""

NUMBER = re.compile(r"\bN\b")


@cache
def program() -> Any:
    return get_command(application(COMMANDS))


@cache
def options(command: Any = None) -> frozenset[str]:
    """Of a command, and of all below it."""
    command = command or program()
    own = {"--help", *(name for option in command.params for name in (*option.opts, *option.secondary_opts))}
    return frozenset(own).union(*(options(below) for below in getattr(command, "commands", {}).values()))


def as_typed(line: str) -> list[str]:
    """The words that reach the program. Of a synopsis, `[--at last|best] [KEY=VALUE ...]`, everything that may be
    given; N is a number, and of alternatives the first one is taken."""
    plain = line.replace("\\|", "|")
    synopsis = re.sub(r"(?<=\s)\[|\](?=\s|$)", " ", plain) if " [" in plain else plain
    words = []
    for word in shlex.split(NUMBER.sub("3", synopsis)):
        if word in SHELL:
            break
        given = word.removesuffix("...")
        words.append(given if "=" in given else given.partition("|")[0])
    return [word for word in words if word]


def problem(line: str, complete: bool = True) -> str | None:
    """Why the parser refuses a line that begins with `rlctl`; None where it does not. An incomplete one names a command
    and may leave out what it needs."""
    words = as_typed(line)[1:]
    if ACTING & options() & set(words):
        return None
    try:
        _parse(program(), with_values(["ls" if word == "COMMAND" else word for word in words]))
    except typer.Exit:  # --help and --version
        return None
    except TyperException as error:
        is_unfinished = type(error).__name__ in ("MissingParameter", "BadOptionUsage")
        return None if is_unfinished and not complete else f"{line}: {type(error).__name__}: {error}"
    return None


def _parse(command: Any, words: list[str], parent: Any = None) -> None:
    context = command.make_context(command.name or "rlctl", list(words), parent=parent)
    rest = [*getattr(context, "_protected_args", []), *context.args]
    if hasattr(command, "commands") and rest:
        _, below, rest = command.resolve_command(context, rest)
        _parse(below, rest, context)
