"""Where runs lie: what `--runs-dir` says, else the variable, else `runs/`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

RUNS_DIR_VARIABLE = "RLSTUDIO_RUNS_DIR"
DEFAULT_RUNS_DIR = Path("runs")


def usual_runs_dir() -> Path:
    """Where a command without the option looks."""
    return Path(os.environ.get(RUNS_DIR_VARIABLE) or DEFAULT_RUNS_DIR)


def in_runs_dir(runs_dir: Path) -> str:
    """What a suggested command needs to find the same runs; empty where it finds them anyway."""
    return "" if runs_dir == usual_runs_dir() else f" --runs-dir {shlex.quote(str(runs_dir))}"
