"""Acrobot: two links, a motor between them; swing the tip up.  Sutton 1996; Gymnasium's Acrobot-v1.

    d1 = 3.5 + cos t2        d2 = 1.25 + cos(t2) / 2       (masses and lengths 1, centres at 1/2, inertia 1)
    p2 = g/2 sin(t1 + t2)    p1 = -w2 (w2 / 2 + w1) sin t2 + 3g/2 sin t1 + p2          (g 9.8)
    w2' = (u + d2/d1 p1 - w1^2 sin(t2) / 2 - p2) / (1.25 - d2^2/d1)         w1' = -(d2 w2' + p1) / d1
    one Runge-Kutta step of 0.2 s; angles wrapped to +-pi, |w1| <= 4 pi, |w2| <= 9 pi
    reward -1 per step, 0 at the end: when the tip is one link above the bar; truncated after 500 steps

State [t1, t2, w1, w2] in float64, observation [cos t1, sin t1, cos t2, sin t2, w1, w2] in float32.
Parameters: `gravity` g, `torque` of the motor.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi

import numpy as np

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Operand, Params
from rlstudio.core.spaces import Box, Discrete, Spaces

DT = 0.2
MAX_SPEED_1, MAX_SPEED_2 = 4 * pi, 9 * pi
HIGH = tuple(float(np.float32(bound)) for bound in (1.0, 1.0, 1.0, 1.0, MAX_SPEED_1, MAX_SPEED_2))


class Acrobot:
    id = "Acrobot-v1"
    spaces = Spaces(Box((6,), "float32", tuple(-bound for bound in HIGH), HIGH), Discrete(3))
    state_size = 4
    noise_size = 4
    limit: int | None = 500
    agents = 1
    params: Mapping[str, float] = {"gravity": 9.8, "torque": 1.0}
    reward_range = (-1.0, 0.0)

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return noise * 0.2 - 0.1

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        torque = (actions - 1.0) * p["torque"]
        pulls = p["gravity"] * 0.5, p["gravity"] * 14.7 / 9.8  # not 1.5 g, which is another float than 14.7
        k1 = _derivative(states, torque, pulls, xp)
        k2 = _derivative(states + (DT / 2) * k1, torque, pulls, xp)
        k3 = _derivative(states + (DT / 2) * k2, torque, pulls, xp)
        k4 = _derivative(states + DT * k3, torque, pulls, xp)
        moved = states + (DT / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        t1, t2 = _wrapped(moved[..., 0], xp), _wrapped(moved[..., 1], xp)
        w1 = xp.clip(moved[..., 2], -MAX_SPEED_1, MAX_SPEED_1)
        w2 = xp.clip(moved[..., 3], -MAX_SPEED_2, MAX_SPEED_2)
        terminated = -xp.cos(t1) - xp.cos(t2 + t1) > 1.0
        return Transition(xp.stack((t1, t2, w1, w2), -1), terminated * 1.0 - 1.0, terminated)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        t1, t2 = states[..., 0], states[..., 1]
        return xp.stack((xp.cos(t1), xp.sin(t1), xp.cos(t2), xp.sin(t2), states[..., 2], states[..., 3]), -1)

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """The state behind an observation."""
        first = xp.arctan2(observations[..., 1], observations[..., 0])
        second = xp.arctan2(observations[..., 3], observations[..., 2])
        return xp.stack((first, second, observations[..., 4], observations[..., 5]), -1)


def _derivative(states: AnyArray, torque: AnyArray, pulls: tuple[Operand, Operand], xp: Namespace) -> AnyArray:
    t1, t2, w1, w2 = (states[..., i] for i in range(4))
    sin, cos = xp.sin(t2), xp.cos(t2)
    d1 = 3.5 + cos
    d2 = 1.25 + 0.5 * cos
    p2 = pulls[0] * xp.sin(t1 + t2)
    p1 = pulls[1] * xp.sin(t1) + p2 - w2 * (0.5 * w2 + w1) * sin
    share = d2 / d1
    a2 = (torque + share * p1 - 0.5 * w1 * w1 * sin - p2) / (1.25 - d2 * share)
    a1 = -(d2 * a2 + p1) / d1
    return xp.stack((w1, w2, a1, a2), -1)


def _wrapped(angle: AnyArray, xp: Namespace) -> AnyArray:
    """Within +-pi; at the highest speed a step turns by less than one round."""
    return angle - (2 * pi) * (xp.where(angle > pi, 1.0, 0.0) - xp.where(angle < -pi, 1.0, 0.0))
