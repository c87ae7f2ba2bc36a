"""From a config to envs: which kind of vector, which ids exist, one env to look at."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import VecEnv, World
from rlstudio.core.errors import ConfigError, UnknownName, UserError, suggest
from rlstudio.core.spaces import Spaces
from rlstudio.envs import extras
from rlstudio.envs.check_world import refuse_unfit
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.params.section import numbers_of, numbers_only
from rlstudio.envs.pettingzoo_ids import is_pettingzoo, known_ids
from rlstudio.envs.worlds.catalog import check_params, exists_only_here, make_world, world_params
from rlstudio.envs.worlds.drawn.world_params import WorldParams
from rlstudio.envs.worlds.kernel import check_size
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.envs.worlds.team import TeamVecEnv

if TYPE_CHECKING:
    import gymnasium
    import numpy as np

BEYOND_WORLDS = ("kwargs", "wrappers", "infos", "action_mask", "max_episode_steps")
"""Settings by which an environment of PettingZoo is another one than the World of its id."""


@dataclass(frozen=True)
class EnvInfo:
    id: str
    origin: str  # "rlstudio" or the package of the env's class
    native: bool  # has a world of our own
    extra: str = ""  # of the installation that it needs
    installed: bool = True  # whether that extra is there


def make_vec_env(
    cfg: EnvConfig,
    num_envs: int | None = None,
    seed: int | None = None,
    *,
    first_env: int = 0,
    vectorization: str | None = None,
    step_timeout: float = 60.0,
    max_restarts: int = 3,
) -> VecEnv:
    """The vector of envs that `cfg` asks for; the arguments after it replace its fields.

    `step_timeout` and `max_restarts` matter to `async` only: how long one call of one env may take, and how often in a
    row a worker is replaced. In a part of a run's envs `first_env` is the number of the first of them: seeds go by
    these numbers.
    """
    num_envs = cfg.num_envs if num_envs is None else num_envs
    seed = cfg.seed if seed is None else seed
    kind = resolve_vectorization(cfg, vectorization)
    if kind == "native":
        if is_pettingzoo(cfg.id):
            extras.prepare(cfg.id)  # evaluation needs the package, and a run must not find that out at its end
        world = _fit_world(cfg)
        if cfg.agent_id or cfg.state:
            from rlstudio.envs.pettingzoo.labelled_world import LabelledWorld

            world = cast("World[np.ndarray]", LabelledWorld(world, cfg))
        check_size(world, num_envs)
        vector = NativeVecEnv if world.agents == 1 else TeamVecEnv
        params = _params_of(world, cfg, num_envs, seed, first_env)
        return vector(world, num_envs, seed, cfg.max_episode_steps, params, first_env)
    if is_pettingzoo(cfg.id):
        from rlstudio.envs.pettingzoo.make import make_team_env

        if first_env:
            raise ConfigError(f"env.id: {cfg.id} is PettingZoo's, which cannot be a part of a run's environments")
        return make_team_env(cfg, num_envs, seed, kind, step_timeout, max_restarts)
    from rlstudio.envs.gym.recipe import Recipe

    recipe = Recipe(cfg)
    if kind == "vector":
        from rlstudio.envs.vector.vector_env import AdaptedVectorEnv

        return AdaptedVectorEnv(recipe, num_envs, seed, first_env=first_env)
    recipe.require_plain_env()
    if kind == "sync":
        from rlstudio.envs.gym.sync import GymnasiumVecEnv

        return GymnasiumVecEnv(recipe, num_envs, seed, first_env)
    if kind == "envpool":
        from rlstudio.envs.envpool.envpool_env import EnvPoolVecEnv

        return EnvPoolVecEnv(recipe, num_envs, seed, first_env)
    from rlstudio.envs.gym.process_env import ProcessVecEnv

    return ProcessVecEnv(
        recipe,
        num_envs,
        seed,
        first_env=first_env,
        workers=cfg.workers,
        step_timeout=step_timeout,
        max_restarts=max_restarts,
    )


def _fit_world(cfg: EnvConfig) -> World[np.ndarray]:
    """Those of others are looked at before they are stepped; ours have their tests."""
    world = make_world(cfg.id, cfg.kwargs)
    if cfg.id not in WORLDS.builtin:
        refuse_unfit(world, cfg.id)
    return world


def resolve_vectorization(cfg: EnvConfig, wanted: str | None = None) -> str:
    """What runs: `native`, `sync`, `async`, `envpool` or `vector`."""
    wanted = wanted or cfg.vectorization
    if is_pettingzoo(cfg.id):
        return _of_pettingzoo(cfg, wanted)
    _refuse_settings_of_agents(cfg)
    if wanted == "auto" and has_only_a_vector(cfg):
        wanted = "vector"
    beyond = _params_beyond_worlds(cfg, wanted)
    masked = cfg.action_mask != "none"
    if wanted == "vector" and cfg.wrappers:
        raise ConfigError("env.wrappers: a VectorEnv takes none; wrap it where it is made (gymnasium.wrappers.vector)")
    if masked and wanted in ("native", "envpool", "vector"):
        raise ConfigError(f"env.vectorization: {wanted} worlds tell no env.action_mask; use sync or async")
    if cfg.infos:
        _refuse_infos_of_worlds(cfg, wanted)
    if wanted == "auto":
        if cfg.id not in WORLDS or masked or cfg.wrappers or cfg.infos or beyond:
            return "sync"
        unlike_gymnasium = cfg.kwargs or cfg.max_episode_steps is not None
        return "sync" if unlike_gymnasium and not exists_only_here(cfg) else "native"
    if wanted == "native" and cfg.id not in WORLDS:
        near = suggest(cfg.id, WORLDS.names()) or f"; native are: {', '.join(WORLDS.names())}"
        raise ConfigError(f"env.vectorization: {cfg.id} has no native world, use auto{near}")
    if wanted == "native" and cfg.wrappers:
        raise ConfigError("env.vectorization: a native world takes no env.wrappers, use auto or sync")
    return wanted


def real_vectorization(cfg: EnvConfig) -> str:
    """Gymnasium's own environment, except for the worlds that exist only here and vectors that have no plain env."""
    return resolve_vectorization(cfg, "auto") if exists_only_here(cfg) or has_only_a_vector(cfg) else "sync"


def has_only_a_vector(cfg: EnvConfig) -> bool:
    """Whether it is a VectorEnv without a plain env beside it: it is evaluated where it is trained."""
    if cfg.id in WORLDS or is_pettingzoo(cfg.id):
        return False
    from rlstudio.envs.gym.recipe import Recipe

    try:
        return not Recipe(cfg).has_plain_env
    except UnknownName:  # which is said where one is made
        return False


def _params_beyond_worlds(cfg: EnvConfig, wanted: str) -> bool:
    """Whether some of env.params are of a Gymnasium env only; ConfigError where they cannot be set."""
    if cfg.params and wanted in ("envpool", "vector"):
        where = "EnvPool's worlds have" if wanted == "envpool" else "a VectorEnv has"
        raise ConfigError(
            f"env.params: {where} no parameters ({', '.join(cfg.params)}); use env.vectorization sync or async, or set"
            " env.kwargs"
        )
    beyond = [each.name for each in cfg.parameters if each.kind]
    if beyond and wanted == "native":
        raise ConfigError(
            f"env.vectorization: a native world has no {beyond[0]}, which is of a Gymnasium env; use auto or sync"
        )
    return bool(beyond)


def _params_of(
    world: World[np.ndarray], cfg: EnvConfig, num_envs: int, seed: int, first_env: int
) -> dict[str, float] | WorldParams:
    """Numbers are constants of the equations; what is drawn is an array of them."""
    if not numbers_only(cfg.params):
        return world_params(world, cfg, seed, num_envs, first_env)
    numbers = numbers_of(cfg.params)
    check_params(world, numbers)
    return numbers


def _of_pettingzoo(cfg: EnvConfig, wanted: str) -> str:
    """Where a World of ours has the same id, training is on that and evaluation in PettingZoo's."""
    if cfg.params:
        raise ConfigError(f"env.params: {cfg.id} has no parameters; use env.kwargs")
    beyond = [name for name in BEYOND_WORLDS if getattr(cfg, name) != EnvConfig.model_fields[name].get_default()]
    if wanted == "auto":
        return "native" if cfg.id in WORLDS and not beyond else "sync"
    if wanted in ("envpool", "vector") or (wanted == "native" and cfg.id not in WORLDS):
        raise ConfigError(f"env.vectorization: {cfg.id} is PettingZoo's, which {wanted} has not; use sync or async")
    if wanted == "native" and beyond:
        raise ConfigError(f"env.vectorization: the native world of {cfg.id} takes no env.{beyond[0]}; use auto or sync")
    return wanted


def _refuse_settings_of_agents(cfg: EnvConfig) -> None:
    for name in ("agent_id", "state"):
        if getattr(cfg, name):
            raise ConfigError(f"env.{name}: {cfg.id} is not PettingZoo's, and only those have it; leave it out")


def agents_of(cfg: EnvConfig, vectorization: str) -> int:
    """How many agents one environment has; of PettingZoo's one is made to find out."""
    if is_pettingzoo(cfg.id):
        from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe

        return len(PettingZooRecipe(cfg).team.names)
    return make_world(cfg.id, cfg.kwargs).agents if vectorization == "native" else 1


def _refuse_infos_of_worlds(cfg: EnvConfig, wanted: str) -> None:
    """Worlds in array code have no info, so every number of theirs would be missing."""
    if exists_only_here(cfg):
        changed = " with env.params" if cfg.params else ""
        raise ConfigError(f"env.infos: {cfg.id}{changed} is a native world, which gives no info; leave env.infos out")
    if wanted == "native":
        raise ConfigError("env.vectorization: a native world gives no info for env.infos; use auto, sync or async")


def refuse_unknown(cfg: EnvConfig) -> None:
    """An id that nobody has is refused; nothing is made."""
    if is_pettingzoo(cfg.id):
        from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe

        PettingZooRecipe(cfg)
        return
    from rlstudio.envs.gym.recipe import Recipe

    Recipe(cfg)


def single_spaces(cfg: EnvConfig) -> Spaces:
    """What one env shows and takes, or each agent of it; it is made for that, and closed."""
    if is_pettingzoo(cfg.id):
        from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe

        return PettingZooRecipe(cfg).team.together
    if exists_only_here(cfg) and (world := _fit_world(cfg)).agents > 1:
        return world.spaces  # no Gymnasium env has several agents
    from rlstudio.envs.gym.recipe import Recipe
    from rlstudio.envs.gym.spaces import convert_spaces

    recipe = Recipe(cfg)
    if not recipe.has_plain_env:
        with closing(make_vec_env(cfg, 1)) as vector:
            return vector.spaces
    with recipe.opened() as env:
        return convert_spaces(env, cfg.id)


def make_single(cfg: EnvConfig, render_mode: str | None = None) -> gymnasium.Env:
    """One plain env as Gymnasium gives it, with its time limit and wrappers: to evaluate, watch or film."""
    from rlstudio.envs.gym.recipe import Recipe

    return Recipe(cfg).build(render_mode)


def known_envs() -> list[EnvInfo]:
    """All registered ids in name order: ours, Gymnasium's and those of installed extras."""
    import gymnasium

    extras.register_installed()
    by_id = {id: EnvInfo(id, _package(id), True) for id in WORLDS.names()}
    for id in known_ids():
        origin = ".".join(id.split("/")[:-1])
        by_id[id] = EnvInfo(id, origin, id in WORLDS, "marl")
    for id, spec in gymnasium.registry.items():
        if getattr(spec.entry_point, "__name__", "").startswith("_raise_"):
            continue  # Gymnasium keeps these names only to say that they have moved
        origin = _origin(spec.entry_point or spec.vector_entry_point)
        extra = extras.extra_of(id, origin)
        needs = ("", True) if extra is None else (extra.name, extra.installed)
        by_id[id] = EnvInfo(id, origin, id in WORLDS, *needs)
    return [by_id[id] for id in sorted(by_id)]


def _package(id: str) -> str:
    """Who offers a World; a list must not fail where two do, as its use would."""
    try:
        return WORLDS.find(id).package
    except UserError:
        return "several packages"


def _origin(entry_point: object) -> str:
    """`gymnasium.envs.classic_control.cartpole:CartPoleEnv` is of `gymnasium.classic_control`."""
    module = entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
    parts = module.split(".")
    return f"gymnasium.{parts[2]}" if parts[:2] == ["gymnasium", "envs"] and len(parts) > 2 else parts[0]
