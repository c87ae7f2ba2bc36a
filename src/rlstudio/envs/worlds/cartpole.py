"""CartPole: a pole on a cart, pushed left or right.  Barto, Sutton & Anderson 1983; Gymnasium's CartPole-v1.

    temp    = (F + m_p l w^2 sin t) / m              F = -10 or +10, m = m_c + m_p
    t''     = (g sin t - cos t temp) / (l (4/3 - m_p cos^2 t / m))
    x''     = temp - m_p l t'' cos t / m             one Euler step of 0.02 s
    reward 1 per step; ends beyond |x| 2.4 or |t| 12 degrees, truncated after 500 steps

State [x, x', t, t'] in float64, observation the same in float32. `rlstudio/CartPoleNoVel-v1` shows [x, t] only: the
velocities must be inferred from earlier observations, so it takes a policy with a memory.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
from numpy import add, divide, multiply, subtract

from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.native import Transition

GRAVITY, MASS_POLE, LENGTH, FORCE, TAU = 9.8, 0.1, 0.5, 10.0, 0.02
MASS = MASS_POLE + 1.0
POLE_MASS_LENGTH = MASS_POLE * LENGTH
X_LIMIT, THETA_LIMIT = 2.4, 12 * 2 * pi / 360

HIGH = tuple(float(np.float32(bound)) for bound in (2 * X_LIMIT, np.inf, 2 * THETA_LIMIT, np.inf))


class CartPole:
    id = "CartPole-v1"
    spaces = Spaces(Box((4,), "float32", tuple(-bound for bound in HIGH), HIGH), Discrete(2))
    state_size = 4
    noise_size = 4
    limit: int | None = 500

    def initial(self, noise: Any, xp: Any = np) -> Any:
        return noise * 0.1 - 0.05

    def dynamics(self, states: Any, actions: Any, xp: Any = np) -> Transition:
        x, x_dot, theta, theta_dot = (states[..., i] for i in range(4))
        sin, cos = xp.sin(theta), xp.cos(theta)
        force = actions * (2 * FORCE) - FORCE
        temp = (theta_dot * theta_dot * sin * POLE_MASS_LENGTH + force) / MASS
        theta_acc = (sin * GRAVITY - cos * temp) / (LENGTH * 4 / 3 - cos * cos * (LENGTH * MASS_POLE / MASS))
        x_acc = temp - theta_acc * cos * (POLE_MASS_LENGTH / MASS)
        x = x + x_dot * TAU
        theta = theta + theta_dot * TAU
        following = xp.stack((x, x_dot + x_acc * TAU, theta, theta_dot + theta_acc * TAU), -1)
        terminated = (abs(x) > X_LIMIT) | (abs(theta) > THETA_LIMIT)
        return Transition(following, xp.ones_like(x), terminated)

    def observe(self, states: Any, xp: Any = np) -> Any:
        return states

    def recall(self, observations: Any, xp: Any = np) -> Any:
        """The state behind an observation."""
        return observations

    def kernel(self, num_envs: int) -> CartPoleKernel:
        return CartPoleKernel(num_envs)


class CartPoleNoVel(CartPole):
    id = "rlstudio/CartPoleNoVel-v1"
    spaces = Spaces(Box((2,), "float32", tuple(-bound for bound in HIGH[::2]), HIGH[::2]), Discrete(2))

    def observe(self, states: Any, xp: Any = np) -> Any:
        return states[..., ::2]

    def kernel(self, num_envs: int) -> CartPoleKernel:
        return CartPoleKernel(num_envs, velocities=False)


class CartPoleKernel:
    """The dynamics above, operation by operation, in 24 NumPy calls on reused arrays: the same bits in half the time.

    Rows (x, t, x', t', x'', t'') of one block make the Euler step of all four numbers one multiplication and one
    addition: rows 0-3 += TAU * rows 2-5. Constants are 0-d arrays, since a Python float costs a conversion per call.
    Results go to another array than they come from: in place NumPy takes thrice the time when there is one env.
    """

    def __init__(self, num_envs: int, velocities: bool = True) -> None:
        block = np.zeros((6, num_envs))
        self._moving, self._rates = block[:4], block[2:]
        self._position, self._theta, self._theta_dot = block[:2], block[1], block[3]
        self._x_acc, self._theta_acc = block[4], block[5]
        self._by_column = block[:4].reshape(2, 2, num_envs).transpose(2, 1, 0)  # [B, (x, t), (value, rate)]
        self._parts = tuple(np.zeros((6, num_envs)))
        self._change = np.zeros((4, num_envs))
        self._distance = np.zeros((2, num_envs))
        self._beyond = np.zeros((2, num_envs), bool)
        self._beyond_x, self._beyond_theta = self._beyond
        self._forces = np.array([-FORCE, FORCE])
        self._limits = np.repeat([[X_LIMIT], [THETA_LIMIT]], num_envs, 1)
        self._constants = tuple(
            np.array(value)
            for value in (
                POLE_MASS_LENGTH,
                MASS,
                GRAVITY,
                LENGTH * MASS_POLE / MASS,
                LENGTH * 4 / 3,
                POLE_MASS_LENGTH / MASS,
                TAU,
            )
        )
        visible = 2 if velocities else 1
        self.observations = np.zeros((num_envs, 2 * visible), np.float32)
        self._observed = self.observations.reshape(num_envs, 2, visible)
        self._visible_state = self._by_column[:, :, :visible]
        self.rewards = np.ones(num_envs, np.float32)
        self.terminated = np.zeros(num_envs, bool)

    def advance(self, actions: np.ndarray) -> None:
        pole_mass_length, mass, gravity, cos_factor, offset, x_factor, tau = self._constants
        sin, cos, temp, a, b, c = self._parts
        theta_dot, theta_acc, x_acc = self._theta_dot, self._theta_acc, self._x_acc
        np.sin(self._theta, sin)
        np.cos(self._theta, cos)
        multiply(theta_dot, theta_dot, a)
        multiply(a, sin, b)
        multiply(b, pole_mass_length, a)
        add(a, self._forces[actions], b)
        divide(b, mass, temp)
        multiply(sin, gravity, a)
        multiply(cos, temp, b)
        subtract(a, b, c)
        multiply(cos, cos, a)
        multiply(a, cos_factor, b)
        subtract(offset, b, a)
        divide(c, a, theta_acc)
        multiply(theta_acc, cos, a)
        multiply(a, x_factor, b)
        subtract(temp, b, x_acc)
        multiply(self._rates, tau, self._change)
        add(self._moving, self._change, self._moving)
        np.absolute(self._position, self._distance)
        np.greater(self._distance, self._limits, self._beyond)
        np.logical_or(self._beyond_x, self._beyond_theta, self.terminated)
        np.copyto(self._observed, self._visible_state)
        self.rewards.fill(1)  # the caller may have changed them

    def states(self) -> np.ndarray:
        return self._by_column.reshape(-1, 4).copy()  # of one env the reshape alone is a view

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        self._by_column[envs] = states.reshape(-1, 2, 2)
        self._observed[envs] = self._visible_state[envs]
