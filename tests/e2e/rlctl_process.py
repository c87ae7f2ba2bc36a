"""`rlctl` as a process of its own, and a world that can be told to hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "import sys; from rlstudio.cli.app import main; sys.exit(main())"]
PATIENCE = 120.0
"""Seconds after which a test gives up. Decides nothing while things work."""

LONG = """\
name: long
env: {id: CartPole-v1, num_envs: 4, seed: 3}
policy: {algo: ppo, network: {hidden_sizes: [8]}}
train: {epochs: 1000000, steps_per_epoch: 64, batch_size: 32, passes: 1, lr_schedule: constant}
eval: {every_epochs: 0, final_episodes: 2}
"""

HANGING_MODULE = """\
import pathlib
import time

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Hanging(CartPoleEnv):
    def step(self, action):
        if pathlib.Path("hang").exists():
            pathlib.Path("hanging").touch()
            time.sleep(3600)
        return super().step(action)


gymnasium.register("Hanging-v0", entry_point=Hanging, max_episode_steps=50)
"""


def rlctl(place: Path, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    given = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False} | options
    return subprocess.run([*COMMAND, *map(str, args)], cwd=place, env=environment(), **given)


def start(place: Path, *args: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command and go on."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.Popen([*COMMAND, *map(str, args)], cwd=place, env=environment(), **given)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def show(place: Path, run: str = "last") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(rlctl(place, "show", run, "--json").stdout)
    return document


def wait_until_trained(place: Path, epochs: int = 3, run: str = "") -> None:
    """Until the only run (or this one) has closed that many epochs."""
    wait_for(lambda: any(_epoch(path) >= epochs for path in (place / "runs").glob(f"{run or '*'}/status.json")))


def wait_for(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def _epoch(path: Path) -> int:
    status = json.loads(path.read_text())
    return int(status["epoch"]) if status["state"] == "RUNNING" else 0
