"""Running one job in a process of its own: start the side's runner with a JSON argument, read its last line."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

RUNNERS = Path(__file__).resolve().parent / "peers"
TIMEOUT_S = 900.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class JobFailed(Exception):
    """The runner ended without an answer; the message is its last words."""


def run_job(python: Path, runner: str, job: dict[str, Any], timeout: float = TIMEOUT_S) -> dict[str, Any]:
    """The answer of `peers/<runner>.py`. `started` is stamped here, so that the interpreter's start counts."""
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(job["threads"]))}
    environment.pop("PYTHONPATH", None)  # a runner sees its own environment and nothing of the caller's
    stamped = {**job, "started": time.monotonic()}
    command = [str(python), str(RUNNERS / f"{runner}.py"), json.dumps(stamped)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise JobFailed(f"no answer within {timeout:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise JobFailed(words[-1])
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except json.JSONDecodeError:
        raise JobFailed(f"the last line is no JSON: {lines[-1][:200]}") from None
    return answer
