"""Where runs lie without `--runs-dir`: the variable `RLSTUDIO_RUNS_DIR`, else `runs/`."""

from __future__ import annotations

import os
from pathlib import Path

RUNS_DIR_VARIABLE = "RLSTUDIO_RUNS_DIR"
DEFAULT_RUNS_DIR = Path("runs")


def usual_runs_dir() -> Path:
    """The folder that a command without `--runs-dir` uses."""
    return Path(os.environ.get(RUNS_DIR_VARIABLE) or DEFAULT_RUNS_DIR)
