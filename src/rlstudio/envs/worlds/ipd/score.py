"""What a player gets per round, measured by playing: the number that `memory_one` and `population` give exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from rlstudio.core.contracts import World
from rlstudio.envs.worlds.ipd.world import IPD, ROUNDS
from rlstudio.envs.worlds.native import NativeVecEnv


def per_round(
    world: IPD, act: Callable[[np.ndarray], np.ndarray], gamma: float, episodes: int, seed: int = 0
) -> np.ndarray:
    """(1 - gamma) sum gamma^t r_t of each of `episodes` games of `ROUNDS` rounds, played side by side.

    `act` gets histories [episodes, history, 5] and gives actions [episodes]: `agent.act` is one.
    """
    env = NativeVecEnv(cast("World[np.ndarray]", world), episodes, seed)
    observations = env.reset()
    paid = np.zeros(episodes)
    for discount in (1 - gamma) * gamma ** np.arange(ROUNDS):
        assert isinstance(observations, np.ndarray)
        step = env.step(act(observations))
        observations = step.observations
        paid += discount * step.rewards
    return paid
