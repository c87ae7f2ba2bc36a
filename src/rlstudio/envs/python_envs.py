"""Environments that were given as objects in Python: a class, a function that makes one, or an env to be copied. They
have the id `python:NAME`, which means something in this process only."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlstudio.core.catalog import WORLDS
from rlstudio.core.errors import UserError, message_of

if TYPE_CHECKING:
    import gymnasium

PREFIX = "python:"
FACTORIES: dict[str, Callable[..., Any]] = {}
"""By id; a class that is defined anew, as in a notebook, replaces the one before."""

EnvObject = Any
"""`type[gymnasium.Env] | Callable[..., gymnasium.Env] | gymnasium.Env`; Gymnasium is not imported to say so."""


def is_of_python(id: str) -> bool:
    return id.startswith(PREFIX)


def given_env(env: EnvObject) -> str:
    """Make an object known, and return its id."""
    import gymnasium

    if isinstance(env, gymnasium.vector.VectorEnv):
        raise UserError(
            f"env: this {type(env).__name__} has a fixed number of copies, and evaluation needs another one; give its"
            " class or a function: env=lambda num_envs: YourVectorEnv(num_envs)"
        )
    if isinstance(env, gymnasium.Env):
        factory, name = _copies(env), type(env.unwrapped).__name__
    elif callable(env):
        factory, name = env, getattr(env, "__name__", type(env).__name__)
    else:
        raise UserError(f"env: a {type(env).__name__} is no environment; give a class, a function or an env")
    id = f"{PREFIX}{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    if WORLDS.fits(env):
        WORLDS.register(id, env)
    else:
        FACTORIES[id] = factory
    return id


def makes_vectors(factory: Callable[..., object]) -> bool:
    """A class of VectorEnv, or a function that is told how many copies to make."""
    import gymnasium

    if isinstance(factory, type):
        return issubclass(factory, gymnasium.vector.VectorEnv)
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except ValueError:  # a builtin may have none
        return False


def _copies(env: gymnasium.Env) -> Callable[..., gymnasium.Env]:
    """Every environment of a run is an object of its own, and begins as this one is now."""
    try:
        untouched = copy.deepcopy(env)
    except Exception as error:
        reason = f"{type(error).__name__}: {message_of(error)}"
        raise UserError(
            f"env: this object cannot be copied ({reason}); give a function that makes one: env=lambda: YourEnv()"
        ) from error

    def copied() -> gymnasium.Env:
        return copy.deepcopy(untouched)

    return copied


def factory_of(id: str) -> Callable[..., Any]:
    if id not in FACTORIES:
        raise UserError(
            f"env.id: {id} was given as an object in Python, and this process does not have it; go on from Python with"
            " the same one: orchestrator.resume(RUN, env=...)"
        )
    return FACTORIES[id]


def refuse_elsewhere(id: str) -> None:
    """For what another process would open."""
    if is_of_python(id):
        raise UserError(
            f"env.id: {id} is an object of this process, and the queue opens a run in another; train it here with"
            " orchestrator.run, or name the class by its file: env.id=FILE.py:Class"
        )


def bind(env: EnvObject, id: str, run_id: str) -> None:
    """Give the environment of a run that goes on: the one that it was started with, by its name."""
    if not is_of_python(id):
        raise UserError(f"run {run_id}: its environment {id} is known by its id; leave env out")
    given = given_env(env)
    if given != id:
        raise UserError(f"run {run_id}: was started with {id}, and {given} was given; give the same one")
