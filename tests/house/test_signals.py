"""However the tests are started, what they start can be interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

STOPS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)
DEAF = f"""
import os, signal, sys
for signum in {tuple(map(int, STOPS))}:
    signal.signal(signum, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {tuple(map(int, STOPS))})
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *sys.argv[1:]])
"""


@pytest.mark.real_process
def test_a_child_ignores_and_blocks_nothing() -> None:
    # Not Python, which ignores SIGPIPE for itself.
    shown = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    masks = {name: int(shown.partition(f"{name}:\t")[2].split()[0], 16) for name in ("SigIgn", "SigBlk")}
    assert {name: [s.name for s in STOPS if mask & 1 << (s - 1)] for name, mask in masks.items()} == {
        "SigIgn": [],
        "SigBlk": [],
    }


@pytest.mark.real_process
@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.slow), "1"])  # `make test` has workers
def test_not_even_under_a_parent_that_ignores_and_blocks_them_all(workers: str, tmp_path: Path) -> None:
    only = f"{__file__}::{test_a_child_ignores_and_blocks_nothing.__name__}"
    command = [sys.executable, "-c", DEAF, only, "-n", workers, f"--basetemp={tmp_path / 'inner'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
