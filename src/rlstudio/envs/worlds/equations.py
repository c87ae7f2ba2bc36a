"""The equations of our own worlds as a model to plan in: no learning, no error."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sin
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from rlstudio.core.contracts import Outcome
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.cartpole import THETA_LIMIT, X_LIMIT, CartPoleNoVel
from rlstudio.envs.worlds.catalog import WORLDS, make_world
from rlstudio.envs.worlds.mountaincar import GRAVITY, MountainCar
from rlstudio.envs.worlds.native import Transition, World
from rlstudio.envs.worlds.pendulum import DT, MAX_SPEED, MAX_TORQUE, Pendulum

T = TypeVar("T")


class Recalling(Protocol):
    """A World whose state can be computed from its observation."""

    id: str
    spaces: Spaces

    def recall(self, observations: Any, xp: Any) -> Any: ...

    def dynamics(self, states: Any, actions: Any, xp: Any) -> Transition: ...

    def observe(self, states: Any, xp: Any) -> Any: ...


REWARD_RANGES = {
    "CartPole-v1": (1.0, 1.0),
    "Acrobot-v1": (-1.0, 0.0),
    "MountainCar-v0": (-1.0, -1.0),
    "Pendulum-v1": (-16.2736044, 0.0),
    "MountainCarContinuous-v0": (-0.1, 100.0),
}

BALANCE_STEPS, FALL_TIME = 100.0, 0.26
"""Steps of a CartPole in balance, about, and the seconds in which its pole falls e times as far: sqrt(4 l / 3 g)."""

HILL_STEPS = 100.0
"""Steps from rest in the valley of MountainCar to the energy of its goal, about."""

SWING_GOAL, SWING_STEPS = 10.0, 2.5
"""Energy with which Acrobot's tip comes high enough (4.9 to 14.7, by its pose), and steps for each unit, about."""


class AnalyticDynamics:
    """Implements `core.contracts.Dynamics` with one particle."""

    def __init__(self, world: Recalling) -> None:
        self._world = world
        self.reward_range = REWARD_RANGES.get(world.id)
        space = world.spaces.action
        self._bounds: tuple[Tensor, Tensor] | None = None  # middle and half width
        if isinstance(space, Box):
            low, high = (torch.from_numpy(side.copy()) for side in space.bounds())
            self._bounds = (low + high) / 2, (high - low) / 2

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        states: Tensor = self._world.recall(observations, torch)
        return states[None, :, None].expand(1, len(states), candidates, states.shape[-1])

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        if self._bounds is not None:
            middle, half = (side.to(actions.device) for side in self._bounds)
            actions = torch.addcmul(middle, actions, half)
        following, rewards, terminated = self._world.dynamics(states, actions, torch)
        return Outcome(following, rewards, 1.0 - terminated.to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        observations: Tensor = self._world.observe(states, torch)
        return observations


class PendulumDynamics(AnalyticDynamics):
    """The same equations, a whole sequence at once: five operations for each step, and one pass over all of them for
    what they cost. A plan of a few hundred numbers takes as long as the count of its operations."""

    def rollout(self, states: Tensor, actions: Tensor) -> Outcome:
        theta, speed = states.unbind(-1)
        pushes = actions[..., 0].movedim(-1, 0).contiguous().unsqueeze(1)  # [H, 1, E, K], of MAX_TORQUE
        thetas, speeds = [], []
        for push in pushes.unbind():
            thetas.append(theta)
            speeds.append(speed)
            faster = torch.add(speed, push, alpha=3.0 * MAX_TORQUE * DT).add_(torch.sin(theta), alpha=15.0 * DT)
            speed = faster.clamp(-MAX_SPEED, MAX_SPEED)
            theta = torch.add(theta, speed, alpha=DT)
        angles, fast = torch.stack(thetas), torch.stack(speeds)
        angles.sub_((angles * (0.5 / pi)).round_(), alpha=2 * pi)
        costs = angles.square().addcmul_(fast, fast, value=0.1).addcmul_(pushes, pushes, value=0.001 * MAX_TORQUE**2)
        return Outcome(torch.stack((theta, speed), -1), costs.neg_(), None)


def dynamics_of(world: EnvConfig) -> AnalyticDynamics:
    """The equations of a configured environment, if nothing changes what it shows, takes or does."""
    dynamics = analytic_dynamics(world.id)
    changed = {"env.wrappers": [name for name, _ in world.wrapper_calls()], "env.kwargs": list(world.kwargs)}
    for field, names in changed.items():
        if names:
            raise Incompatible(
                f"dynamics analytic: the equations of {world.id} know nothing of {field} ({', '.join(names)}); leave"
                " them out, learn a model (dynamics.kind mlp or ensemble), or plan in one that a run has learned"
                " (rlctl eval --dynamics RUN)"
            )
    return dynamics


def analytic_dynamics(env_id: str) -> AnalyticDynamics:
    """The equations of an environment; Incompatible where there are none, or where they need hidden state."""
    known = sorted(id for id, kind in WORLDS.items() if hasattr(kind, "recall") and kind is not CartPoleNoVel)
    if env_id not in known:
        raise Incompatible(
            f"dynamics analytic: there are no equations for {env_id}; there are for {', '.join(known)}."
            " Learn a model instead, with policy.algo mbmpc, which lends it to other runs: rlctl eval --dynamics RUN"
        )
    world: World = make_world(env_id, {})
    kind = PendulumDynamics if isinstance(world, Pendulum) else AnalyticDynamics
    return kind(world)  # type: ignore[arg-type]


# -- what to plan for where the world's own reward says too little ----------------------------------------------------


def dense_reward(env_id: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A reward that says in each step how well it goes; Incompatible where there is none."""
    return _named(DENSE_REWARDS, env_id, "reward dense", "use reward native")


def physical_value(env_id: str) -> Callable[[Tensor], Tensor]:
    """A guess of what is still to come, in the rewards of the world: <= 0 where a step costs 1; Incompatible where
    there is none."""
    return _named(PHYSICAL_VALUES, env_id, "value physics", "use value own or none")


def _named(known: dict[str, T], env_id: str, what: str, instead: str) -> T:
    if env_id not in known:
        raise Incompatible(
            f"planner {what}: there is none for {env_id}, only for {', '.join(sorted(known))}; {instead}"
        )
    return known[env_id]


def _upright(observations: Tensor, actions: Tensor, after: Tensor) -> Tensor:
    """CartPole: 1 in the middle with the pole upright, 0 where both are at their limits."""
    return 1.0 - 0.5 * (after[..., 0] / X_LIMIT).square() - 0.5 * (after[..., 2] / THETA_LIMIT).square()


def _balance(observations: Tensor) -> Tensor:
    """CartPole: steps that it stays up, fewer the farther from balance the pole falls to and the cart rolls to."""
    x, x_dot, theta, theta_dot = observations.unbind(-1)
    away = ((x + x_dot) / X_LIMIT).square() + ((theta + FALL_TIME * theta_dot) / THETA_LIMIT).square()
    return BALANCE_STEPS * (1.0 - 0.5 * away)


def _hill_energy(observations: Tensor) -> Tensor:
    """MountainCar: v^2 / 2 + 0.0025 sin(3x) / 3 against that at rest on the goal."""
    position, speed = observations[..., 0], observations[..., 1]
    energy = 0.5 * speed.square() + (GRAVITY / 3) * torch.sin(3 * position)
    missing = (GRAVITY / 3) * sin(3 * MountainCar.goal) - energy
    return missing.clamp(min=0.0) * (-HILL_STEPS / (2 * GRAVITY / 3))


def _swing_energy(observations: Tensor) -> Tensor:
    """Acrobot: kinetic and potential energy against that of the tip one link above the bar."""
    cos1, sin1, cos2, sin2, w1, w2 = observations.unbind(-1)
    height = 14.7 * -cos1 + 4.9 * -(cos1 * cos2 - sin1 * sin2)
    motion = 0.5 * (3.5 + cos2) * w1.square() + (1.25 + 0.5 * cos2) * w1 * w2 + 0.625 * w2.square()
    return (height + motion - SWING_GOAL).clamp(max=0.0) * SWING_STEPS


DENSE_REWARDS = {"CartPole-v1": _upright}
PHYSICAL_VALUES = {"CartPole-v1": _balance, "MountainCar-v0": _hill_energy, "Acrobot-v1": _swing_energy}
