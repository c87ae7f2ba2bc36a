"""What a suggested command needs to find the runs of this one, and how the path of a run is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from rlstudio.experiment.folder.runs_dir import usual_runs_dir


def in_runs_dir(runs_dir: Path) -> str:
    """` --runs-dir DIR`; empty where the command finds them anyway."""
    return "" if runs_dir.absolute() == usual_runs_dir().absolute() else f" --runs-dir {shlex.quote(str(runs_dir))}"


_FINDS_RUNS = re.compile(
    r"(?<![\w/.-])rlctl (?:adopt|backup|cancel|diff|eval|export|fork|gc|launch|logs|ls|models|pause|play|plot|promote|"
    r"queue|record|resume|rm|rollback|run|serve|show|stop|sweep|token|worker)\b[^,;()`\n]*"
)
"""A command in a message that looks for runs: it ends where the sentence does."""


def with_runs_dir(message: str, runs_dir: Path) -> str:
    """A message of the rooms below, which do not know the option: its commands then find the runs of this one."""
    return with_place(message, in_runs_dir(runs_dir))


def with_place(message: str, where: str) -> str:
    """The same, with the option written out: ` --runs-dir DIR` or ` --server URL`."""
    option = where.strip().partition(" ")[0]
    if not option:
        return message
    return _FINDS_RUNS.sub(lambda match: match[0] if option in match[0] else _with(match[0], where), message)


def _with(command: str, where: str) -> str:
    bare = command.rstrip(" .:")
    return f"{bare}{where}{command[len(bare) :]}"


def given_runs_dir(arguments: Sequence[str]) -> Path:
    """The one that a command line names, as `--runs-dir DIR` or `--runs-dir=DIR`; otherwise the usual one."""
    for number, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option == "--runs-dir" and (equals or number + 1 < len(arguments)):
            return Path(value if equals else arguments[number + 1])
    return usual_runs_dir()


def short_path(path: Path) -> Path:
    """Relative to the working directory where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
