"""Runs that go on until a test lets them end: an environment of the user's own that is slow before a file is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.deadlines import PATIENCE
from support.experiments import tiny_data

MODULE = "patient_cartpole"
PATIENT = """
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

HURRY = 200


class PatientCartPole(CartPoleEnv):
    "Steps slowly from step HURRY on until a file `go` lies in the working directory."

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps > HURRY and not Path("go").exists():
            time.sleep(0.05)
        return super().step(action)


gymnasium.register("PatientCartPole-v0", PatientCartPole, max_episode_steps=100)
"""


def patient(**resources: Any) -> dict[str, Any]:
    """Two epochs that take minutes before `go` is there, and nothing afterwards."""
    return tiny_data(
        env={"id": "PatientCartPole-v0", "vectorization": "sync"},
        train={"epochs": 2, "steps_per_epoch": 1024, "rollout_steps": 16},
        eval={"every_epochs": 1, "episodes": 1, "final_episodes": 1},
        resources=resources,
    )


def until(condition: Callable[[], Any], act: Callable[[], Any] = lambda: None) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        act()
        time.sleep(0.1)
    return value


def go() -> None:
    Path("go").touch()
