"""Environments that end their process now and then, for `benchmarks.soak`: by chance, or when a file asks for it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

SPARED = "SOAK_SPARED_PROCESS"
"""The variable with the process that never crashes: the one that learns and evaluates."""
CODE = 3


class Crashing:
    """The chance is the operating system's: by a seed of the episode a fresh worker would crash at the same step."""

    def __init__(self, crash: float = 0.0, ask: str | None = None) -> None:
        super().__init__()
        spared = os.environ.get(SPARED) == str(os.getpid())
        self._limit, self._ask = 0 if spared else int(crash * 2**32), None if ask is None else Path(ask)

    def step(self, action: Any) -> Any:
        if self._limit and int.from_bytes(os.urandom(4), "little") < self._limit:
            os._exit(CODE)
        if self._ask is not None and self._ask.exists():
            with suppress(FileNotFoundError):  # two workers saw it, and one of them is to go
                self._ask.unlink()
                os._exit(CODE)
        return super().step(action)  # type: ignore[misc]


class CrashingCartPole(Crashing, CartPoleEnv):
    pass


class CrashingPendulum(Crashing, PendulumEnv):
    pass
