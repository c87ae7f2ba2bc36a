"""From an id to a World: ours, those of other packages, those that an imported module registered. Free of Gymnasium and
of torch until an id needs them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import World
from rlstudio.core.errors import ConfigError, EnvFault, RLStudioError, UserError, raised
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.params.section import numbers_only
from rlstudio.envs.worlds.drawn.world_params import WorldParams, check_names
from rlstudio.envs.worlds.kernel import NUMPY, empty_rows, parameters

NEEDED = (*World.__annotations__, "initial", "dynamics", "observe")
OURS = "rlstudio/"


def make_world(
    id: str, kwargs: Mapping[str, JsonValue], params: Mapping[str, float] | None = None
) -> World[np.ndarray]:
    """The World of an id. `params` are only checked: a World is given them with every call."""
    kind = WORLDS.load(id)
    try:
        world: World[np.ndarray] = kind(**kwargs)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env.kwargs: {id} refuses {dict(kwargs)}: {_reason(error)}") from error
    except Exception as error:
        if isinstance(error, RLStudioError):
            raise
        raise EnvFault(f"env.id: {id} cannot be made: {raised(error)}") from error
    if missing := [name for name in NEEDED if not hasattr(world, name)]:
        part = WORLDS.find(id)
        raise UserError(f"world {id!r} of {part.package} ({part.target}) has no {missing[0]}; see the contract World")
    check_params(world, params or {})
    return world


def check_params(world: World[np.ndarray], params: Mapping[str, float]) -> None:
    """Unknown names are refused, and numbers with which the equations give none."""
    p = parameters(world, params, num_envs=1)
    if params:
        with np.errstate(all="ignore"):
            states = np.asarray(world.initial(np.full((1, world.noise_size), 0.25), p, NUMPY))
            actions = empty_rows(world.spaces.action, (1,) if world.agents == 1 else (1, world.agents))
            assert isinstance(actions, np.ndarray)
            following = world.dynamics(states, actions, p, NUMPY)
        if not all(np.isfinite(part).all() for part in (states, following.states, following.rewards)):
            given = ", ".join(f"{name}={value:g}" for name, value in params.items())
            raise ConfigError(f"env.params: {world.id} gives numbers that are not finite with {given}; choose others")


def world_params(world: World[np.ndarray], cfg: EnvConfig, seed: int, num_envs: int, first_env: int = 0) -> WorldParams:
    """The parameters of a World's episodes, as `env.params` says; ConfigError where the ends of their ranges give
    numbers that are not finite."""
    check_names(world, cfg.parameters)
    for end in (0, 1):
        numbers = {}
        for each in cfg.parameters:
            if each.drawn_from is not None:
                own = world.params[each.address]
                numbers[each.address] = each.drawn_from.range[end] * (own if each.scale else 1.0)
        check_params(world, numbers)
    return WorldParams(world, cfg.parameters, seed, num_envs, first_env)


def has_equations(env_id: str) -> bool:
    """Whether planners can use them. A plug-in that cannot be loaded has none: its error belongs to its own use."""
    try:
        return env_id in WORLDS and hasattr(WORLDS.load(env_id), "recall")
    except RLStudioError:
        return False


def exists_only_here(cfg: EnvConfig) -> bool:
    """Whether its world has no counterpart in Gymnasium, by its id or because parameters make it another one: it is
    evaluated where it is trained."""
    if cfg.id not in WORLDS:
        return False
    if cfg.id.startswith(OURS) or _has_params_of_world(cfg):
        return True
    if cfg.id in WORLDS.builtin:
        return False
    import gymnasium

    return cfg.id not in gymnasium.registry


def _has_params_of_world(cfg: EnvConfig) -> bool:
    """Of our own World, and not of Gymnasium's env of the same id: that is meant by a target like `attr:length`, and
    where parameters are drawn also by asking for `sync` or `async`."""
    if not cfg.params or any(each.kind for each in cfg.parameters):
        return False
    return numbers_only(cfg.params) or cfg.vectorization in ("auto", "native")


def _reason(error: Exception) -> str:
    return str(error).split(".__init__() ")[-1]
