"""Pendulum: swing up and hold with a weak motor.  Gymnasium's Pendulum-v1.

    cost = norm(t)^2 + 0.1 w^2 + 0.001 u^2           norm: angle in [-pi, pi), u clipped to [-2, 2]
    w'   = clip(w + (3 g / 2 l sin t + 3 / m l^2 u) 0.05, -8, 8)      t' = t + 0.05 w'
    reward -cost; never ends, truncated after 200 steps

State [t, w] in float64, observation [cos t, sin t, w] in float32. Parameters: `gravity` g, `mass` m, `length` l.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Operand, Params
from rlstudio.core.spaces import Box, Spaces

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
    agents = 1
    params: Mapping[str, float] = {"gravity": 10.0, "mass": 1.0, "length": 1.0}
    reward_range = (-16.2736044, 0.0)

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """Any angle, and a speed of at most 1."""
        unit = noise * 2 - 1
        return xp.stack((unit[..., 0] * pi, unit[..., 1]), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        theta, speed = states[..., 0], states[..., 1]
        torque = xp.clip(actions[..., 0], -MAX_TORQUE, MAX_TORQUE)
        angle = (theta + pi) % (2 * pi) - pi
        cost = angle * angle + 0.1 * (speed * speed) + 0.001 * (torque * torque)
        pull, push = factors(p)
        speed = xp.clip(speed + (pull * xp.sin(theta) + push * torque) * DT, -MAX_SPEED, MAX_SPEED)
        never = cost < 0.0  # in half the time of zeros_like
        return Transition(xp.stack((theta + speed * DT, speed), -1), -cost, never)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        theta = states[..., 0]
        return xp.stack((xp.cos(theta), xp.sin(theta), states[..., 1]), -1)

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """The state behind an observation."""
        angle = xp.arctan2(observations[..., 1], observations[..., 0])
        return xp.stack((angle, observations[..., 2]), -1)


def factors(p: Params) -> tuple[Operand, Operand]:
    """How strongly gravity pulls and the motor pushes, in acceleration: 3 g / 2 l and 3 / m l^2."""
    length = p["length"]
    return 3.0 * p["gravity"] / (2.0 * length), 3.0 / (p["mass"] * length * length)
