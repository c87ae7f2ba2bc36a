"""Advantages of a rollout: how much better it went than the values said. What policy gradients learn from."""

from __future__ import annotations

from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.ops.returns import gae


def advantages(rollout: Batch, values_TB: Tensor, next_values_TB: Tensor, gamma: float, lam: float) -> Tensor:
    """GAE, [T, B]. `next_values_TB` is V at the true successor, so a time limit bootstraps and a death does not.

    The trace stops at a row that does not count (the guard's zeros are no experience) and bootstraps there.
    """
    cuts_TB = rollout.dones
    if rollout.weights is not None:
        cuts_TB[:-1] |= rollout.weights[1:] == 0
    return gae(rollout.rewards, values_TB, next_values_TB, rollout.terminated, cuts_TB, gamma, lam)
