"""What the tests of the command line share: a tiny experiment, the result of a command, the content of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlstudio.cli.app import main
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


def rlctl_in_process(capsys: pytest.CaptureFixture[str]) -> Rlctl:
    """`rlctl` inside this process: quick."""

    def run(*args: object) -> Result:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        return Result(code, *capsys.readouterr())

    return run


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
