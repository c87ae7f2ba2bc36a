"""Identity worlds: do what you are shown. The first thing every algorithm must solve, in seconds.

    rlstudio/Identity-v0      observation one-hot of k, action Discrete(k), reward 1 when the action is the one shown
    rlstudio/IdentityBox-v0   observation x in [-1, 1], action a in [-1, 1], reward -(a - x)^2

A new target is drawn each step and the episode ends after `length` steps. State [steps, dice].
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Space, Spaces
from rlstudio.envs.worlds import dice
from rlstudio.envs.worlds.kernel import one_hot


class Identity:
    """Do what is shown: one choice of several."""

    id = "rlstudio/Identity-v0"
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 1
    params: Mapping[str, float] = {}

    def __init__(self, k: int = 4, length: int = 4) -> None:
        if k < 2 or length < 1:
            raise ValueError(f"k must be at least 2 and length at least 1, got {k} and {length}")
        self.k = k
        self.length = length
        self.spaces = Spaces(Box((k,), "float32", (0.0,), (1.0,)), Discrete(k))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        return _next_target(states, (actions == self._target(states, xp)) * 1.0, self.length, xp)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return one_hot(self._target(states, xp), self.k, xp)

    def _target(self, states: AnyArray, xp: Namespace) -> AnyArray:
        return xp.floor(dice.unit(states[..., 1]) * self.k)


class IdentityBox:
    """Do what is shown: a number."""

    id = "rlstudio/IdentityBox-v0"
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 1
    params: Mapping[str, float] = {}

    def __init__(self, length: int = 4) -> None:
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        self.length = length
        side: Space = Box((1,), "float32", (-1.0,), (1.0,))
        self.spaces = Spaces(side, side)

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        miss = actions[..., 0] - self.observe(states, p, xp)[..., 0]
        return _next_target(states, -miss * miss, self.length, xp)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return dice.unit(states[..., 1:]) * 2 - 1


def _next_target(states: AnyArray, rewards: AnyArray, length: int, xp: Namespace) -> Transition[AnyArray]:
    steps = states[..., 0] + 1
    return Transition(xp.stack((steps, dice.roll(states[..., 1])), -1), rewards, steps >= length)
