"""Pendulum: swing up and hold with a weak motor.  Gymnasium's Pendulum-v1.

    cost = norm(t)^2 + 0.1 w^2 + 0.001 u^2           norm: angle in [-pi, pi), u clipped to [-2, 2]
    w'   = clip(w + (15 sin t + 3 u) 0.05, -8, 8)    t' = t + 0.05 w'
    reward -cost; never ends, truncated after 200 steps

State [t, w] in float64, observation [cos t, sin t, w] in float32.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.worlds.native import PlainKernel, Transition

MAX_SPEED, MAX_TORQUE, DT = 8.0, 2.0, 0.05


class Pendulum:
    id = "Pendulum-v1"
    spaces = Spaces(
        Box((3,), "float32", (-1.0, -1.0, -MAX_SPEED), (1.0, 1.0, MAX_SPEED)),
        Box((1,), "float32", (-MAX_TORQUE,), (MAX_TORQUE,)),
    )
    state_size = 2
    noise_size = 2
    limit: int | None = 200

    def initial(self, noise: Any, xp: Any = np) -> Any:
        """Any angle, and a speed of at most 1."""
        unit = noise * 2 - 1
        return xp.stack((unit[..., 0] * pi, unit[..., 1]), -1)

    def dynamics(self, states: Any, actions: Any, xp: Any = np) -> Transition:
        theta, speed = states[..., 0], states[..., 1]
        torque = xp.clip(actions[..., 0], -MAX_TORQUE, MAX_TORQUE)
        angle = (theta + pi) % (2 * pi) - pi
        cost = angle * angle + 0.1 * (speed * speed) + 0.001 * (torque * torque)
        speed = xp.clip(speed + (15.0 * xp.sin(theta) + 3.0 * torque) * DT, -MAX_SPEED, MAX_SPEED)
        return Transition(xp.stack((theta + speed * DT, speed), -1), -cost, xp.zeros_like(theta, dtype=xp.bool))

    def observe(self, states: Any, xp: Any = np) -> Any:
        theta = states[..., 0]
        return xp.stack((xp.cos(theta), xp.sin(theta), states[..., 1]), -1)

    def recall(self, observations: Any, xp: Any = np) -> Any:
        """The state behind an observation."""
        angle = xp.arctan2(observations[..., 1], observations[..., 0])
        return xp.stack((angle, observations[..., 2]), -1)

    def kernel(self, num_envs: int) -> PlainKernel:
        return PlainKernel(self, num_envs)
