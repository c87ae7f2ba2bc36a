"""Runs in a real Ray of two nodes. The tests are in `ray_cases.py`; they share one cluster, and have a process of their
own: one that had a Ray once has threads, and should fork no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("ray_cases.py")


@pytest.mark.slow  # a cluster and eight runs: a minute of a core
@pytest.mark.real_process
def test_every_case_passes_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", str(CASES)]
    done = subprocess.run(command, cwd=CASES.parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
    assert "6 passed" in done.stdout
