"""Which ids have a world of our own. Free of Gymnasium and of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstudio.core.errors import ConfigError
from rlstudio.envs.worlds.acrobot import Acrobot
from rlstudio.envs.worlds.cartpole import CartPole, CartPoleNoVel
from rlstudio.envs.worlds.chain import Chain
from rlstudio.envs.worlds.gridworld import GridWorld
from rlstudio.envs.worlds.identity import Identity, IdentityBox
from rlstudio.envs.worlds.mountaincar import MountainCar, MountainCarContinuous
from rlstudio.envs.worlds.native import World
from rlstudio.envs.worlds.pendulum import Pendulum
from rlstudio.envs.worlds.recall import Recall

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


def make_world(id: str, kwargs: dict[str, Any]) -> World:
    try:
        return WORLDS[id](**kwargs)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env.kwargs: {id} refuses {kwargs}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error).split(".__init__() ")[-1]
