"""Environments that are named by their class, `drone_env:Drone`, without being registered.

Naming one imports nothing: its module must be imported already, because the user allowed it (decisions 0034 and 0045).
Only classes of environments are taken, so that the id in a file or a run folder cannot call anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import ModuleType

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from rlstudio.core.catalog import WORLDS
from rlstudio.core.errors import ConfigError, UnknownName, UserError, suggest
from rlstudio.envs.own_modules import imported
from rlstudio.envs.pettingzoo_ids import FUNCTIONS
from rlstudio.envs.python_envs import factory_of, is_of_python, makes_vectors

KINDS = gymnasium.Env, VectorEnv
MISSPELT = 0.8
"""So similar is a misspelt name: CartPole to CartPole-v1 is 0.84, Drone-v0 to Enduro-v0 0.71."""


def class_spec(id: str) -> EnvSpec:
    """What Gymnasium would know of the class if it were registered under this id, without a time limit."""
    if is_of_python(id):
        factory = factory_of(id)
        return EnvSpec(id, vector_entry_point=factory) if makes_vectors(factory) else EnvSpec(id, entry_point=factory)
    module_name, _, name = id.partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        raise UserError(
            f"env.id: {id} is in a module that is not imported; allow it: --import {module_name}, or its file:"
            f" --import {module_name}.py (in Python: import it first)"
        )
    offered = env_classes(module)
    value = getattr(module, name, None)
    if value is None:
        known = (
            f"; its environments: {', '.join(offered)}" if offered else "; it has no class of gymnasium.Env, no World"
        )
        raise UnknownName(f"env.id: {module_name} has no class {name!r}{suggest(name, offered) or known}")
    if not (isinstance(value, type) and issubclass(value, KINDS)):
        is_function = callable(value) and not isinstance(value, type)
        names = f", or name a function that makes one of PettingZoo {', '.join(FUNCTIONS)}" if is_function else ""
        raise ConfigError(
            f"env.id: {id} is no class of gymnasium.Env, and no World (initial, dynamics, observe); let it inherit from"
            f" gymnasium.Env{names}"
        )
    return EnvSpec(id, vector_entry_point=id) if issubclass(value, VectorEnv) else EnvSpec(id, entry_point=id)


def env_classes(module: ModuleType) -> list[str]:
    """The environments that a module itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and (issubclass(value, KINDS) or WORLDS.fits(value))
        and value.__module__ == module.__name__
    ]


def not_registered(id: str, known: Sequence[str]) -> str | None:
    """Why an unknown id is not there although the user imported modules, and what to do. None without such modules, and
    where it is a misspelt one of all that are `known`."""
    modules = imported()
    if not modules or get_close_matches(id.lower(), [name.lower() for name in known], cutoff=MISSPELT):
        return None
    ids = [env_id for module in modules.values() for env_id in module.env_ids]
    names = " and ".join(modules)
    classes = [(name, cls) for name in modules for cls in env_classes(sys.modules[name])]
    listing = f"it registers: {', '.join(ids)}" if ids else "it registers nothing"
    call = f"call gymnasium.register({id!r}, entry_point={classes[0][1] if classes else 'YourEnv'}) in it"
    direct = f", or name the class: {classes[0][0]}:{classes[0][1]}" if classes else ""
    return f"{names} registered nothing named {id}; {listing}; {call}{direct}"
