"""The parts of these pages that are made from the code: see `docs/fill.py`, which fills them in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
PROMISED = re.compile(r"^\| `(rlstudio[\w.]+)` \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def options() -> str:
    """The help of every command, as a screen of 80 columns shows it."""
    from typer.main import get_command

    from rlstudio.cli.app import COMMANDS, SECTIONS, application

    with mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        program: Any = get_command(application(COMMANDS))
        context = program.make_context("rlctl", [], resilient_parsing=True)
        return "".join(
            f"## {section}\n\n"
            + "".join(text for name in names for text in _helps(program.commands[name], name, context))
            for section, names in SECTIONS.items()
        )


def _helps(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield f"### {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n\n"
    for below, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, below, context)


def names() -> str:
    """Every name of `python.md`, to be written out by the site from signatures and docstrings."""
    modules = {"rlstudio": ["load_agent", "open_bundle", "log"]} | {
        module: re.findall(r"`(\w+)`", listed) for module, listed in PROMISED.findall((HERE / "python.md").read_text())
    }
    lines = {module: "".join(f"::: {module}.{name}\n\n" for name in listed) for module, listed in modules.items()}
    return "".join(f"## {module}\n\n{text}" for module, text in lines.items())


TABLES: dict[str, Callable[[], str]] = {"options": options, "names": names}
