"""Chain: a corridor of n cells whose values are known in closed form, for exact tests of bootstrap and episode ends.

    start in cell 0; action 1 goes right, action 0 goes left (not beyond cell 0)
    going right in the last cell pays 1 and ends the episode, or (endless) pays 1 and stays, for ever

    V(i) = gamma^(n-1-i)                 ending chain, always right
    V(i) = gamma^(n-1-i) / (1 - gamma)   endless chain, always right

A time limit cuts the episode but changes no value: truncation must bootstrap, termination must not. A learner that
confuses the two misses these numbers. The observation is the cell, one-hot.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.kernel import one_hot


class Chain:
    id = "rlstudio/Chain-v0"
    state_size = 1
    noise_size = 1
    limit: int | None = 100
    agents = 1
    params: Mapping[str, float] = {}

    def __init__(self, n: int = 5, endless: bool = False) -> None:
        if n < 2:
            raise ValueError(f"n must be at least 2, got {n}")
        self.n = n
        self.endless = endless
        self.spaces = Spaces(Box((n,), "float32", (0.0,), (1.0,)), Discrete(2))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.zeros_like(noise)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        cell = states[..., 0]
        reached = (cell == self.n - 1) & (actions == 1)
        cell = xp.clip(cell + (actions * 2 - 1), 0, self.n - 1)
        rewards = reached * 1.0
        return Transition(cell[..., None], rewards, xp.zeros_like(reached) if self.endless else reached)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return one_hot(states[..., 0], self.n, xp)
