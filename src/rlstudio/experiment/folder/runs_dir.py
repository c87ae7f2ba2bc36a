"""Where runs lie, unless somebody says otherwise: the variable `RLSTUDIO_RUNS_DIR`, else `runs/`."""

from __future__ import annotations

import os
from pathlib import Path

RUNS_DIR_VARIABLE = "RLSTUDIO_RUNS_DIR"
DEFAULT_RUNS_DIR = Path("runs")


def usual_runs_dir() -> Path:
    """Where a command without the option looks."""
    return Path(os.environ.get(RUNS_DIR_VARIABLE) or DEFAULT_RUNS_DIR)
