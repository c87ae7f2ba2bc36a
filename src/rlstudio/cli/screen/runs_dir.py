"""What a suggested command needs to find the runs of this one."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlstudio.experiment.folder.runs_dir import usual_runs_dir


def in_runs_dir(runs_dir: Path) -> str:
    """` --runs-dir DIR`; empty where the command finds them anyway."""
    return "" if runs_dir == usual_runs_dir() else f" --runs-dir {shlex.quote(str(runs_dir))}"
