"""The equations of our own worlds as a model to plan in: no learning, no error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sin
from typing import Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import Outcome, SequenceOutcome, World
from rlstudio.core.contracts.arrays import Namespace
from rlstudio.core.contracts.environments import A
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box
from rlstudio.envs.config import EnvConfig, Kwargs
from rlstudio.envs.params.section import numbers_of, numbers_only
from rlstudio.envs.worlds.cartpole import THETA_LIMIT, X_LIMIT
from rlstudio.envs.worlds.catalog import exists_only_here, has_equations, make_world
from rlstudio.envs.worlds.mountaincar import GRAVITY, MountainCar
from rlstudio.envs.worlds.pendulum import DT, MAX_SPEED, MAX_TORQUE, Pendulum, factors

T = TypeVar("T")

TORCH = cast(Namespace, torch)


@runtime_checkable
class Recalling(World[A], Protocol[A]):
    """A World whose state can be computed from its observation. It may have a `reward_range`, the lowest and the
    highest reward of a step."""

    def recall(self, observations: A, p: Mapping[str, float | A], xp: Namespace) -> A:
        """The states [..., S] behind observations [..., O]."""
        ...


BALANCE_STEPS, FALL_TIME = 100.0, 0.26
"""Steps of a CartPole in balance, about, and the seconds in which its pole falls e times as far: sqrt(4 l / 3 g)."""

HILL_STEPS = 100.0
"""Steps from rest in the valley of MountainCar to the energy of its goal, about."""

SWING_GOAL, SWING_STEPS = 10.0, 2.5
"""Energy with which Acrobot's tip comes high enough (4.9 to 14.7, by its pose), and steps for each unit, about."""


class AnalyticDynamics:
    """Implements `core.contracts.Dynamics` with one particle."""

    def __init__(self, world: Recalling[Tensor], params: Mapping[str, float | Tensor] | None = None) -> None:
        """`params` replace the world's own, by a number for all environments or a tensor [E]."""
        self._world: Recalling[Tensor] = world
        self.params: dict[str, float | Tensor] = {**world.params, **(params or {})}
        self._per_env = {name: value for name, value in self.params.items() if isinstance(value, Tensor)}
        self.reward_range: tuple[float, float] | None = getattr(world, "reward_range", None)
        space = world.spaces.action
        self._bounds: tuple[Tensor, Tensor] | None = None  # middle and half width
        if isinstance(space, Box):
            low, high = (torch.from_numpy(side.copy()) for side in space.bounds())
            self._bounds = (low + high) / 2, (high - low) / 2

    @property
    def changed(self) -> list[str]:
        """The parameters that are not the world's own."""
        own = self._world.params
        return [name for name, value in self.params.items() if isinstance(value, Tensor) or value != own[name]]

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        for name, value in self._per_env.items():
            if len(value) != len(observations):
                raise Incompatible(
                    f"dynamics analytic: parameter {name!r} is given for {len(value)} environments, not for"
                    f" {len(observations)}"
                )
        states = self._world.recall(observations, self._p(observations, candidates=False), TORCH)
        return states[None, :, None].expand(1, len(states), candidates, states.shape[-1])

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        if self._bounds is not None:
            middle, half = (side.to(actions.device) for side in self._bounds)
            actions = torch.addcmul(middle, actions, half)
        following, rewards, terminated, _ = self._world.dynamics(states, actions, self._p(states), TORCH)
        return Outcome(following, rewards, 1.0 - terminated.to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        observations = self._world.observe(states, self._p(states), TORCH)
        assert isinstance(observations, Tensor)
        return observations

    def _p(self, like: Tensor, candidates: bool = True) -> Mapping[str, float | Tensor]:
        """The parameters beside states [P, E, K, S], or rows [E, S] without `candidates`."""
        if not self._per_env:
            return self.params
        beside = {name: value.to(like.device, like.dtype) for name, value in self._per_env.items()}
        return {**self.params, **{name: value[:, None] if candidates else value for name, value in beside.items()}}


class PendulumDynamics(AnalyticDynamics):
    """The same equations, a whole sequence at once: five operations for each step, and one pass over all of them for
    what they cost. A plan of a few hundred numbers takes as long as the count of its operations."""

    def rollout(self, states: Tensor, actions: Tensor) -> SequenceOutcome:
        pull, motor = (cast(float, factor) for factor in factors(_floats(self.params)))
        theta, speed = states.unbind(-1)
        pushes = actions[..., 0].movedim(-1, 0).contiguous().unsqueeze(1)  # [H, 1, E, K], of MAX_TORQUE
        thetas, speeds = [], []
        for push in pushes.unbind():
            thetas.append(theta)
            speeds.append(speed)
            faster = torch.add(speed, push, alpha=motor * MAX_TORQUE * DT).add_(torch.sin(theta), alpha=pull * DT)
            speed = faster.clamp(-MAX_SPEED, MAX_SPEED)
            theta = torch.add(theta, speed, alpha=DT)
        angles, fast = torch.stack(thetas), torch.stack(speeds)
        angles.sub_((angles * (0.5 / pi)).round_(), alpha=2 * pi)
        costs = angles.square().addcmul_(fast, fast, value=0.1).addcmul_(pushes, pushes, value=0.001 * MAX_TORQUE**2)
        return SequenceOutcome(torch.stack((theta, speed), -1), costs.neg_(), None)


def dynamics_of(world: EnvConfig) -> AnalyticDynamics:
    """The equations of a configured environment, if nothing changes what it shows, takes or does."""
    if not numbers_only(world.params):
        drawn = [name for name, value in world.params.items() if not isinstance(value, float)]
        raise Incompatible(
            f"dynamics analytic: the equations of {world.id} need numbers, and env.params draws or shows"
            f" {', '.join(drawn)}; give numbers, or learn a model (dynamics.kind mlp or ensemble)"
        )
    dynamics = analytic_dynamics(world.id, numbers_of(world.params), world.kwargs if exists_only_here(world) else {})
    kwargs = [] if exists_only_here(world) else list(world.kwargs)
    changed = {"env.wrappers": [name for name, _ in world.wrapper_calls()], "env.kwargs": kwargs}
    for field, names in changed.items():
        if names:
            instead = f" or set env.params ({', '.join(dynamics.params)})" if field == "env.kwargs" else ""
            raise Incompatible(
                f"dynamics analytic: the equations of {world.id} know nothing of {field} ({', '.join(names)}); leave"
                f" them out{instead}, learn a model (dynamics.kind mlp or ensemble), or plan in one that a run has"
                " learned (`rlctl eval RUN --planner KIND --dynamics OTHER_RUN`)"
            )
    return dynamics


def analytic_dynamics(
    env_id: str, params: Mapping[str, float | Tensor] | None = None, kwargs: Kwargs | None = None
) -> AnalyticDynamics:
    """The equations of an environment; Incompatible where there are none, or where they need hidden state."""
    world = make_world(env_id, kwargs or {}, _floats(params or {})) if env_id in WORLDS else None
    if not isinstance(world, Recalling) or world.agents > 1:
        known = ", ".join(filter(has_equations, WORLDS.names()))
        raise Incompatible(
            f"dynamics analytic: there are no equations for {env_id}; there are for {known}."
            " Learn a model instead, with policy.algo mbmpc, which lends it to other runs:"
            " `rlctl eval RUN --planner KIND --dynamics MBMPC_RUN`"
        )
    per_env = any(isinstance(value, Tensor) for value in (params or {}).values())
    kind = PendulumDynamics if isinstance(world, Pendulum) and not per_env else AnalyticDynamics
    return kind(cast("Recalling[Tensor]", world), params)  # a World is written for arrays and tensors alike


def _floats(params: Mapping[str, float | Tensor]) -> dict[str, float]:
    """With the first of several numbers in their place, to be checked by name."""
    return {name: float(value[0]) if isinstance(value, Tensor) else value for name, value in params.items()}


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
