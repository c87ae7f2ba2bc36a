"""What the tests of the command line share: a tiny experiment, the result of a command, the content of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from rlstudio.cli.app import COMMANDS, application, main
from support.experiments import tiny_yaml

TINY = tiny_yaml(env={"num_envs": 4}, eval={"every_epochs": 2, "episodes": 2, "final_episodes": 3})


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as exactly one JSON document."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


Rlctl = Callable[..., Result]


@cache
def all_commands() -> TyperGroup:
    """What `rlctl` reads its arguments with."""
    command = get_command(application(COMMANDS))
    assert isinstance(command, TyperGroup)
    return command


def rlctl_in_process(capsys: pytest.CaptureFixture[str]) -> Rlctl:
    """`rlctl` inside this process: quick."""

    def run(*args: object) -> Result:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        return Result(code, *capsys.readouterr())

    return run


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
