"""The judge of the learning table: greedy episodes on a plain environment, the same for every side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium


def play(begin: Callable[[], Callable[[Any], Any]], env: gymnasium.Env, episodes: int, first_seed: int) -> list[float]:
    """The return of each episode; episode k starts from `reset(seed=first_seed + k)`, with the act of `begin()`."""
    returns = []
    for number in range(episodes):
        observation, _ = env.reset(seed=first_seed + number)
        act, total, over = begin(), 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    env.close()
    return returns
