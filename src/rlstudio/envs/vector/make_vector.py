"""From a recipe to the user's VectorEnv, looked at before it is used: what it is, how many copies, how it resets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple, cast

from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from rlstudio.core.errors import ConfigError, EnvFault, RLStudioError, UserError
from rlstudio.envs.gym.recipe import Recipe, close_quietly, reason_of

LIMIT = "max_episode_steps"
MODES = ", ".join(mode.name for mode in AutoresetMode)


class Made(NamedTuple):
    env: VectorEnv
    mode: AutoresetMode
    limit: int | None
    """Steps after which the adapter truncates; None where the env counts by itself, or nobody does."""


def make_vector(recipe: Recipe, num_envs: int) -> Made:
    """A fresh VectorEnv of so many copies."""
    id, creator = recipe.cfg.id, _creator(recipe)
    assert recipe.spec is not None
    counts_itself = _takes(creator, LIMIT)
    arguments = {**recipe.spec.kwargs, **recipe.cfg.kwargs}
    if counts_itself and recipe.limit is not None:
        arguments = {LIMIT: recipe.limit, **arguments}
    try:
        env = creator(num_envs=num_envs, **arguments)
    except RLStudioError:
        raise
    except (Exception, SystemExit) as error:
        if recipe.cfg.kwargs:
            raise ConfigError(f"env.kwargs: {id} refuses {recipe.cfg.kwargs}: {reason_of(error)}") from error
        raise EnvFault(f"env {id} cannot be created with num_envs={num_envs}: {reason_of(error)}") from error
    try:
        mode = _checked(env, id, num_envs)
        return Made(env, mode, _limit(recipe, mode, counts_itself))
    except RLStudioError:
        close_quietly(env)
        raise


def _creator(recipe: Recipe) -> Callable[..., VectorEnv]:
    entry_point = None if recipe.spec is None else recipe.spec.vector_entry_point
    if entry_point is None:
        raise ConfigError(
            f"env.vectorization: {recipe.cfg.id} has no vector_entry_point, and is no class of"
            " gymnasium.vector.VectorEnv; use auto"
        )
    try:
        creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except Exception as error:
        raise UserError(f"env.id: {recipe.cfg.id}: {entry_point} cannot be loaded: {reason_of(error)}") from error
    return cast("Callable[..., VectorEnv]", creator)


def _takes(creator: Callable[..., VectorEnv], name: str) -> bool:
    parameters = inspect.signature(creator).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _checked(env: object, id: str, num_envs: int) -> AutoresetMode:
    if not isinstance(env, VectorEnv):
        raise EnvFault(f"env {id}: made a {type(env).__name__}, which is no gymnasium.vector.VectorEnv")
    for name in ("num_envs", "single_observation_space", "single_action_space"):
        if not hasattr(env, name):
            raise EnvFault(f"env {id}: has no attribute {name}; set it in the constructor")
    if env.num_envs != num_envs:
        raise EnvFault(f"env {id}: num_envs={num_envs} was asked for, and it has {env.num_envs}; use the argument")
    mode = (env.metadata or {}).get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise EnvFault(
            f"env {id}: its metadata has no autoreset_mode ({MODES}), so nobody knows where an episode's last"
            ' observation is; set metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP} or another'
        )
    return mode


def _limit(recipe: Recipe, mode: AutoresetMode, counts_itself: bool) -> int | None:
    if counts_itself or recipe.limit is None:
        return None
    if mode is AutoresetMode.DISABLED:
        return recipe.limit
    raise ConfigError(
        f"env.{LIMIT}: the constructor of {recipe.cfg.id} takes no {LIMIT}, and with autoreset {mode.name} nobody else"
        f" can end its episodes; let it take one, or leave env.{LIMIT} out"
    )
