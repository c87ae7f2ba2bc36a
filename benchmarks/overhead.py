"""What a user waits for besides training: `rlctl` starting up, and checkpoints being written.

`python -m benchmarks.overhead` prints it; `make bench` puts it into the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.jobs import run_job
from benchmarks.settings import DQN, PPO

RLCTL = Path(sys.executable).parent / "rlctl"
RUNS = 20
"""Run folders that `rlctl ls` has to read."""


def measure(repeats: int = 10, seconds: float = 40.0) -> dict[str, Any]:
    """Median start-up times in seconds, and the cost of checkpoints at the default cadence over a run of `seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        _make_runs(Path(folder), RUNS)
        listing = [str(RLCTL), "ls", "--runs-dir", folder]
        return {
            "help_s": latency([str(RLCTL), "--help"], repeats),
            "ls_s": latency(listing, repeats),
            "ls_runs": RUNS,
            "checkpoint": {"ppo": _checkpoints(PPO, seconds), "dqn": _checkpoints(DQN, seconds)},
        }


def latency(command: list[str], repeats: int) -> float:
    """Median wall time of a command; one unmeasured call first, for the disk's cache."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return round(median(times[1:]), 4)


def _make_runs(folder: Path, count: int) -> None:
    from rlstudio.experiment.folder.new_run import NewRun
    from rlstudio.experiment.folder.run_folder import RunFolder
    from rlstudio.experiment.folder.status import RunState

    for number in range(count):
        RunFolder.create(
            folder,
            NewRun(name=f"run{number}", algo="ppo", env_id="CartPole-v1", config_yaml=""),
            state=RunState.COMPLETED,
        )


def _checkpoints(settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    job = {**settings, "what": "checkpoint", "vectorization": "native", "threads": 1, "seed": 0, "seconds": seconds}
    return run_job(Path(sys.executable), "rlstudio_runner", job)


def main() -> None:
    print(json.dumps(measure(), indent=1))


if __name__ == "__main__":
    main()
