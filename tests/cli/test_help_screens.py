"""Every help fits a screen of 80 columns and 40 lines; that of `rlctl` has all commands, by what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlstudio.cli.app import COMMANDS, SECTIONS
from rlstudio.cli.screen.overview import GIST, GISTS, command_lines
from support.cli_scenario import all_commands


def helps(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """Of a command, and of those below it."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield context.command_path, command.get_help(context)
    for below, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, below, context)


def test_every_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screens = dict(helps(all_commands(), "rlctl"))
    assert set(COMMANDS) <= {path.split()[1] for path in screens if path != "rlctl"}
    large = {}
    for path, text in screens.items():
        lines = text.splitlines()
        size = max(map(len, lines)), len(lines)
        if size[0] > 80 or size[1] > 40:
            large[path] = size
    assert large == {}


def test_the_overview_has_every_command_once() -> None:
    assert sorted(GISTS) == sorted(COMMANDS)
    assert max(map(len, GISTS.values())) < GIST  # a blank between two of them
    words = " ".join(command_lines(SECTIONS)).split()
    assert [title for title in SECTIONS if title not in words] == []
    assert [name for name in COMMANDS if words.count(name) == 0] == []
