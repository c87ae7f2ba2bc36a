"""`rlctl` as a process of its own, and a world that can be told to hang."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from rlstudio.control.runs.looking.documents import run_document
from rlstudio.control.workspace import Workspace
from support.deadlines import PATIENCE
from support.experiments import tiny_yaml
from support.warm_python import RLCTL, WarmPopen

COMMAND = [sys.executable, "-c", "import sys; from rlstudio.cli.app import main; sys.exit(main())"]
_started: list[subprocess.Popen[str]] = []

LONG = tiny_yaml(name="long", env={"num_envs": 4}, train={"epochs": 1_000_000, "lr_schedule": "constant"})

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
    patience = options.pop("timeout", PATIENCE)
    process = start(place, *args, **options)
    out, err = process.communicate(timeout=patience)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(place: Path, *args: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command and go on."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    process = WarmPopen([RLCTL, *map(str, args)], cwd=place, **given)
    _started.append(process)
    return process


def served_actions(place: Path, observations: object, *options: object, **given: Any) -> list[Any]:
    """What `rlctl serve-policy bundle` answers to observations."""
    server = start(place, "serve-policy", "bundle", "--port", 0, "--token-file", "token", *options, **given)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].split(",")[0]
        wait_for((place / "token").exists)
        body = json.dumps({"observations": observations}).encode()
        token = (place / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{address}/act", body, headers), timeout=PATIENCE) as reply:
            actions: list[Any] = json.loads(reply.read())["actions"]
    finally:
        end_all()
    return actions


def end_all() -> None:
    """Whatever a failed test left running."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def show(place: Path, runs: str = "runs", run: str = "last") -> dict[str, Any]:
    """A run, by default the newest, as `rlctl show RUN --json` tells it."""
    entry = Workspace(place / runs).find(run)
    return run_document(entry.status, entry.folder)


def wait_until_trained(place: Path, epochs: int = 3) -> None:
    """Until a run has closed that many epochs."""
    wait_for(lambda: any(_epoch(path) >= epochs for path in (place / "runs").glob("*/status.json")))


def wait_for(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def _epoch(path: Path) -> int:
    status = json.loads(path.read_text())
    return int(status["epoch"]) if status["state"] == "RUNNING" else 0
