"""Which ids have a world of our own. Free of Gymnasium and of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstudio.core.errors import ConfigError
from rlstudio.envs.acrobot import Acrobot
from rlstudio.envs.cartpole import CartPole, CartPoleNoVel
from rlstudio.envs.chain import Chain
from rlstudio.envs.gridworld import GridWorld
from rlstudio.envs.identity import Identity, IdentityBox
from rlstudio.envs.mountaincar import MountainCar, MountainCarContinuous
from rlstudio.envs.native import World
from rlstudio.envs.pendulum import Pendulum
from rlstudio.envs.recall import Recall

WORLDS: dict[str, Callable[..., World]] = {
    kind.id: kind
    for kind in (
        Acrobot,
        CartPole,
        CartPoleNoVel,
        Chain,
        GridWorld,
        Identity,
        IdentityBox,
        Recall,
        Pendulum,
        MountainCar,
        MountainCarContinuous,
    )
}

OURS = "rlstudio/"
"""Ids under this name exist only here; the others are native versions of Gymnasium's."""


def make_world(id: str, kwargs: dict[str, Any]) -> World:
    try:
        return WORLDS[id](**kwargs)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env.kwargs: {id} refuses {kwargs}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error).split(".__init__() ")[-1]
