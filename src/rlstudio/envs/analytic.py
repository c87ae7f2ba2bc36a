"""The equations of our own worlds as a model to plan in: no learning, no error."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from rlstudio.core.contracts import Outcome
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.cartpole import CartPoleNoVel
from rlstudio.envs.native import Transition, World
from rlstudio.envs.worlds import WORLDS, make_world


class Recalling(Protocol):
    """A World whose state can be told from what it shows."""

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


class AnalyticDynamics:
    """Implements `core.contracts.Dynamics` with one particle."""

    def __init__(self, world: Recalling) -> None:
        self._world = world
        self.reward_range = REWARD_RANGES.get(world.id)
        space = world.spaces.action
        self._bounds: tuple[Tensor, Tensor] | None = None
        if isinstance(space, Box):
            low, high = space.bounds()
            self._bounds = torch.from_numpy(low.copy()), torch.from_numpy(high.copy())

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        states: Tensor = self._world.recall(observations, torch)
        return states[None, :, None].expand(1, len(states), candidates, states.shape[-1])

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        if self._bounds is not None:
            low, high = self._bounds
            actions = low + (actions + 1.0) * (0.5 * (high - low))
        following, rewards, terminated = self._world.dynamics(states, actions, torch)
        return Outcome(following, rewards, 1.0 - terminated.to(states.dtype))

    def observe(self, states: Tensor) -> Tensor:
        shown: Tensor = self._world.observe(states, torch)
        return shown


def analytic_dynamics(env_id: str, kwargs: dict[str, Any] | None = None) -> AnalyticDynamics:
    """The equations of an environment; Incompatible where there are none, or where they need what is not shown."""
    known = sorted(id for id, kind in WORLDS.items() if hasattr(kind, "recall") and kind is not CartPoleNoVel)
    if env_id not in known:
        raise Incompatible(
            f"dynamics analytic: there are no equations for {env_id}; there are for {', '.join(known)}."
            " Learn a model instead: dynamics.kind mlp or ensemble"
        )
    world: World = make_world(env_id, kwargs or {})
    return AnalyticDynamics(world)  # type: ignore[arg-type]
