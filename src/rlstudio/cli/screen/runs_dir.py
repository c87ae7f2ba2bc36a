"""What a suggested command needs to find the runs of this one, and how the path of a run is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlstudio.experiment.folder.runs_dir import usual_runs_dir


def in_runs_dir(runs_dir: Path) -> str:
    """` --runs-dir DIR`; empty where the command finds them anyway."""
    return "" if runs_dir.absolute() == usual_runs_dir().absolute() else f" --runs-dir {shlex.quote(str(runs_dir))}"


def short_path(path: Path) -> Path:
    """Relative to the working directory where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
