"""MountainCar: a car too weak for its hill.  Moore 1990; Gymnasium's MountainCar-v0 and MountainCarContinuous-v0.

    v' = clip(v + push - g cos 3x, +-0.07)           push = f (a - 1), or f clip(a, +-1)
    x' = clip(x + v', -1.2, 0.6)                     the wall on the left stops the car
    discrete: reward -1 per step, ends at 0.5, truncated after 200 steps
    continuous: reward 100 at the end less 0.1 a^2 per step, ends at 0.45, truncated after 999 steps

State [x, v] in float64, observation the same in float32. Parameters: `gravity` g 0.0025, `force` f 0.001 or 0.0015; an
episode starts between `start` -0.6 and `start` + `start_width` 0.2, with the speed `start_speed` 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces

MIN_X, MAX_X, MAX_SPEED, GRAVITY = -1.2, 0.6, 0.07, 0.0025
LOW, HIGH = (tuple(float(np.float32(x)) for x in bounds) for bounds in ((MIN_X, -MAX_SPEED), (MAX_X, MAX_SPEED)))
VALLEY = {"start": -0.6, "start_width": 0.2, "start_speed": 0.0}
OBSERVATION = Box((2,), "float32", LOW, HIGH)


class MountainCar:
    """A car too weak for its hill gathers speed by swinging: push left, right or not at all."""

    id = "MountainCar-v0"
    spaces = Spaces(OBSERVATION, Discrete(3))
    state_size = 2
    noise_size = 1
    limit: int | None = 200
    agents = 1
    params: Mapping[str, float] = {"gravity": GRAVITY, "force": 0.001, **VALLEY}
    reward_range = (-1.0, -1.0)
    goal = 0.5

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """At rest in the valley where nothing else is set."""
        x = noise[..., 0] * p["start_width"] + p["start"]
        return xp.stack((x, xp.zeros_like(x) + p["start_speed"]), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        following, terminated = self._drive(states, (actions - 1.0) * p["force"], p, xp)
        return Transition(following, -xp.ones_like(following[..., 0]), terminated)

    def _drive(self, states: AnyArray, push: AnyArray, p: Params, xp: Namespace) -> tuple[AnyArray, AnyArray]:
        x, speed = states[..., 0], states[..., 1]
        speed = xp.clip(speed + push - p["gravity"] * xp.cos(3 * x), -MAX_SPEED, MAX_SPEED)
        x = xp.clip(x + speed, MIN_X, MAX_X)
        speed = xp.where((x == MIN_X) & (speed < 0), xp.zeros_like(speed), speed)
        return xp.stack((x, speed), -1), (x >= self.goal) & (speed >= 0)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return states

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """The state behind an observation."""
        return observations


class MountainCarContinuous(MountainCar):
    """MountainCar with a force between -1 and 1, which costs."""

    id = "MountainCarContinuous-v0"
    spaces = Spaces(OBSERVATION, Box((1,), "float32", (-1.0,), (1.0,)))
    limit = 999
    params = {"gravity": GRAVITY, "force": 0.0015, **VALLEY}
    reward_range = (-0.1, 100.0)
    goal = 0.45

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        force = actions[..., 0]
        following, terminated = self._drive(states, xp.clip(force, -1.0, 1.0) * p["force"], p, xp)
        return Transition(following, terminated * 100.0 - 0.1 * force * force, terminated)
