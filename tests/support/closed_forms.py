"""Values of small worlds that are known without learning them."""

from __future__ import annotations

import numpy as np

from rlstudio.envs.worlds.gridworld import GOAL_REWARD, STEP_REWARD


def chain_values(gamma: float, n: int = 5, endless: bool = False) -> np.ndarray:
    """V(i) [n] of the policy that always goes right, with or without a time limit."""
    values: np.ndarray = gamma ** np.arange(n - 1, -1, -1.0)
    return values / (1 - gamma) if endless else values


def chain_action_values(gamma: float, n: int = 5, endless: bool = False) -> np.ndarray:
    """Q(i, a) [n, 2]: left or right once, then always right."""
    values = chain_values(gamma, n, endless)
    left = gamma * values[np.maximum(np.arange(n) - 1, 0)]
    return np.stack((left, values), 1)


def gridworld_value(gamma: float, size: int = 7, teleport: bool = True) -> float:
    """The optimal discounted return from the start: every shortest way to the centre is as good as any other."""
    far, near = 2 * (size // 2), 2 * (size // 2 - 1)  # steps from the start and from a landing cell

    def walk(steps: int, afterwards: float) -> float:
        return STEP_REWARD * (1 - gamma**steps) / (1 - gamma) + gamma ** (steps - 1) * (
            GOAL_REWARD + gamma * afterwards
        )

    if not teleport:
        return walk(far, 0.0)
    landing = walk(near, 0.0) / (1 - gamma**near)
    return walk(far, landing)
