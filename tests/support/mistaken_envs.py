"""An environment with one mistake at a time, each of those that people make, and a clock that only it moves."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ID = "toys/Mistaken-v0"


class Clock:
    """Seconds that pass where an environment says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


CLOCK = Clock()


class Mistaken(gymnasium.Env[np.ndarray, Any]):
    """Healthy with its defaults: numbers around 1, a reward of 1, an end by chance after about 30 steps."""

    def __init__(
        self,
        fault: str = "",
        reward: float = 1.0,
        shown: float = 1.0,
        bound: float | None = None,
        actions: float | None = None,
        seconds: float = 0.0,
        reset_seconds: float = 0.0,
        length: int | None = None,
    ) -> None:
        self.fault, self.reward, self.shown, self.seconds, self.length = fault, reward, shown, seconds, length
        limit = shown * 4 if bound is None else bound
        self.reset_seconds = reset_seconds
        self.observation_space = spaces.Box(-limit, limit, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        if actions is not None:
            self.action_space = spaces.Box(-actions, actions, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        CLOCK.now += self.reset_seconds
        self.steps = 0
        return self._look(), {}

    def _look(self) -> np.ndarray:
        draw = np.random.default_rng(int.from_bytes(os.urandom(4))) if self.fault == "unseeded" else self.np_random
        if self.fault == "blind":
            return np.ones(3, np.float32)
        size = 4 if self.fault == "shape" and self.steps else 3
        return (self.shown * draw.uniform(-1.5, 1.5, size)).astype(np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        CLOCK.now += self.seconds
        self.steps += 1
        ended = self.fault != "endless" and bool(self.np_random.random() < 1 / 30)
        if self.length is not None:
            ended = self.steps >= self.length
        reward = float("nan") if self.fault == "nan" else self.reward
        return self._look(), reward, ended, False, {}


def register_mistaken() -> None:
    if ID not in gymnasium.registry:
        gymnasium.register(ID, Mistaken)
