"""CartPole: a pole on a cart, pushed left or right.  Barto, Sutton & Anderson 1983; Gymnasium's CartPole-v1.

    temp    = (F + m_p l w^2 sin t) / m              F = -force or +force, m = m_c + m_p
    t''     = (g sin t - cos t temp) / (l (4/3 - m_p cos^2 t / m))
    x''     = temp - m_p l t'' cos t / m             one Euler step of 0.02 s
    reward 1 per step; ends beyond |x| 2.4 or |t| 12 degrees, truncated after 500 steps

State [x, x', t, t'] in float64, observation the same in float32. `rlstudio/CartPoleNoVel-v1` shows [x, t] only: the
velocities must be inferred from earlier observations, so it takes a policy with a memory. Parameters: `gravity` g,
`mass_cart` m_c, `mass_pole` m_p, `length` l (half the pole's), `force`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi
from typing import cast

import numpy as np
from numpy import add, divide, multiply, subtract

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Operand, Params
from rlstudio.core.spaces import Box, Discrete, Spaces

TAU = 0.02
X_LIMIT, THETA_LIMIT = 2.4, 12 * 2 * pi / 360

HIGH = tuple(float(np.float32(bound)) for bound in (2 * X_LIMIT, np.inf, 2 * THETA_LIMIT, np.inf))


class Cart:
    """The equations of both worlds; they differ in what they show."""

    state_size = 4
    noise_size = 4
    limit: int | None = 500
    agents = 1
    params: Mapping[str, float] = {"gravity": 9.8, "mass_cart": 1.0, "mass_pole": 0.1, "length": 0.5, "force": 10.0}

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return noise * 0.1 - 0.05

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        x, x_dot, theta, theta_dot = (states[..., i] for i in range(4))
        pole_mass_length, mass, gravity, cos_factor, offset, x_factor = factors(p)
        sin, cos = xp.sin(theta), xp.cos(theta)
        force = actions * (2 * p["force"]) - p["force"]
        temp = (theta_dot * theta_dot * sin * pole_mass_length + force) / mass
        theta_acc = (sin * gravity - cos * temp) / (offset - cos * cos * cos_factor)
        x_acc = temp - theta_acc * cos * x_factor
        x = x + x_dot * TAU
        theta = theta + theta_dot * TAU
        following = xp.stack((x, x_dot + x_acc * TAU, theta, theta_dot + theta_acc * TAU), -1)
        terminated = (abs(x) > X_LIMIT) | (abs(theta) > THETA_LIMIT)
        return Transition(following, xp.ones_like(x), terminated)


class CartPole(Cart):
    """A pole on a cart, held up by pushing the cart left or right."""

    id = "CartPole-v1"
    spaces = Spaces(Box((4,), "float32", tuple(-bound for bound in HIGH), HIGH), Discrete(2))
    reward_range = (1.0, 1.0)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return states

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        """The state behind an observation."""
        return observations

    def kernel(self, num_envs: int, p: Mapping[str, float | np.ndarray]) -> CartPoleKernel:
        return CartPoleKernel(num_envs, p)


class CartPoleNoVel(Cart):
    """CartPole that does not show velocities: they must be remembered."""

    id = "rlstudio/CartPoleNoVel-v1"
    spaces = Spaces(Box((2,), "float32", tuple(-bound for bound in HIGH[::2]), HIGH[::2]), Discrete(2))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return states[..., ::2]

    def kernel(self, num_envs: int, p: Mapping[str, float | np.ndarray]) -> CartPoleKernel:
        return CartPoleKernel(num_envs, p, velocities=False)


def factors(p: Params) -> tuple[Operand, ...]:
    """What the equations multiply with: m_p l, m, g, l m_p / m, 4 l / 3, m_p l / m."""
    mass_pole, length = p["mass_pole"], p["length"]
    mass = mass_pole + p["mass_cart"]
    pole_mass_length = mass_pole * length
    return pole_mass_length, mass, p["gravity"], length * mass_pole / mass, length * 4 / 3, pole_mass_length / mass


class CartPoleKernel:
    """The dynamics above, operation by operation, in 24 NumPy calls on reused arrays: the same bits in half the time.

    Rows (x, t, x', t', x'', t'') of one block make the Euler step of all four numbers one multiplication and one
    addition: rows 0-3 += TAU * rows 2-5. Constants are 0-d arrays, since a Python float costs a conversion per call.
    Results go to another array than they come from: in place NumPy takes thrice the time when there is one env.
    """

    def __init__(self, num_envs: int, p: Mapping[str, float | np.ndarray], velocities: bool = True) -> None:
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
        self._p = p
        self._force_of, self._forces = force_table(p["force"], num_envs)
        self._limits = np.repeat([[X_LIMIT], [THETA_LIMIT]], num_envs, 1)
        self._constants = tuple(np.asarray(value, float) for value in (*factors(cast(Params, p)), TAU))
        visible = 2 if velocities else 1
        self.observations = np.zeros((num_envs, 2 * visible), np.float32)
        self._observed = self.observations.reshape(num_envs, 2, visible)
        self._visible_state = self._by_column[:, :, :visible]
        self.rewards = np.ones(num_envs, np.float32)
        self.terminated = np.zeros(num_envs, bool)
        self.active: np.ndarray | None = None

    def advance(self, actions: np.ndarray) -> None:
        pole_mass_length, mass, gravity, cos_factor, offset, x_factor, tau = self._constants
        sin, cos, temp, a, b, c = self._parts
        theta_dot, theta_acc, x_acc = self._theta_dot, self._theta_acc, self._x_acc
        np.sin(self._theta, sin)
        np.cos(self._theta, cos)
        multiply(theta_dot, theta_dot, a)
        multiply(a, sin, b)
        multiply(b, pole_mass_length, a)
        add(a, self._force_of(actions), b)
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

    def refresh(self) -> None:
        for constant, value in zip(self._constants, (*factors(cast(Params, self._p)), TAU), strict=True):
            if constant.ndim:
                constant[:] = value
        force = self._p["force"]
        if isinstance(force, np.ndarray):
            self._forces[:, 0], self._forces[:, 1] = -force, force

    def states(self) -> np.ndarray:
        return self._by_column.reshape(-1, 4).copy()  # of one env the reshape alone is a view

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        self._by_column[envs] = states.reshape(-1, 2, 2)
        self._observed[envs] = self._visible_state[envs]


def force_table(force: float | np.ndarray, num_envs: int) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """The force of each env's action, by one look into a table; and the table."""
    if isinstance(force, np.ndarray):
        table, rows = np.stack((-force, force), -1), np.arange(num_envs)
        return lambda actions: table[rows, actions], table
    table = np.array([-force, force])
    return table.__getitem__, table
