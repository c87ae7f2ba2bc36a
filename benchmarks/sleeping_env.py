"""Environments that take their time: Gymnasium's with a pause in every step, for `benchmarks.scale`."""

from __future__ import annotations

import time
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

PAUSE = 5e-3
"""Seconds of every step."""


class SleepingCartPole(CartPoleEnv):
    def __init__(self, pause: float = PAUSE) -> None:
        super().__init__()
        self._pause = pause

    def step(self, action: Any) -> Any:
        time.sleep(self._pause)
        return super().step(action)


class SleepingPendulum(PendulumEnv):
    def __init__(self, pause: float = PAUSE) -> None:
        super().__init__()
        self._pause = pause

    def step(self, action: Any) -> Any:
        time.sleep(self._pause)
        return super().step(action)
