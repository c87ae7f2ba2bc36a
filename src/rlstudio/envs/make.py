"""From a config to envs: which kind of vector, which ids exist, one env to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlstudio.core.contracts import VecEnv
from rlstudio.core.errors import ConfigError, suggest
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.native import NativeVecEnv
from rlstudio.envs.worlds import OURS, WORLDS, make_world

if TYPE_CHECKING:
    import gymnasium


class MadeVecEnv(VecEnv, Protocol):
    """A VecEnv that says what `vectorization: auto` became."""

    vectorization: str


@dataclass(frozen=True)
class EnvInfo:
    id: str
    origin: str  # "rlstudio" or the package of the env's class
    native: bool  # has a world of our own


def make_vec_env(
    cfg: EnvConfig,
    num_envs: int | None = None,
    seed: int | None = None,
    *,
    vectorization: str | None = None,
    step_timeout: float = 60.0,
    max_restarts: int = 3,
) -> MadeVecEnv:
    """The vector of envs that `cfg` asks for; the arguments after it replace its fields.

    `step_timeout` and `max_restarts` matter to `async` only: how long one call of one env may take, and how often in a
    row a worker is replaced.
    """
    num_envs = cfg.num_envs if num_envs is None else num_envs
    seed = cfg.seed if seed is None else seed
    kind = resolve_vectorization(cfg, vectorization)
    if kind == "native":
        return NativeVecEnv(make_world(cfg.id, dict(cfg.kwargs)), num_envs, seed, cfg.max_episode_steps)
    from rlstudio.envs.single import Recipe

    recipe = Recipe(cfg)
    if kind == "sync":
        from rlstudio.envs.gymnasium_env import GymnasiumVecEnv

        return GymnasiumVecEnv(recipe, num_envs, seed)
    from rlstudio.envs.process_env import ProcessVecEnv

    return ProcessVecEnv(recipe, num_envs, seed, step_timeout=step_timeout, max_restarts=max_restarts)


def resolve_vectorization(cfg: EnvConfig, wanted: str | None = None) -> str:
    """What runs: `native`, `sync` or `async`."""
    wanted = wanted or cfg.vectorization
    if wanted == "auto":
        changed = cfg.wrappers or (not cfg.id.startswith(OURS) and (cfg.kwargs or cfg.max_episode_steps is not None))
        return "native" if cfg.id in WORLDS and not changed else "sync"
    if wanted == "native" and cfg.id not in WORLDS:
        near = suggest(cfg.id, WORLDS) or f"; native are: {', '.join(WORLDS)}"
        raise ConfigError(f"env.vectorization: {cfg.id} has no native world, use auto{near}")
    if wanted == "native" and cfg.wrappers:
        raise ConfigError("env.vectorization: a native world takes no env.wrappers, use auto or sync")
    return wanted


def make_single(cfg: EnvConfig, render_mode: str | None = None) -> gymnasium.Env:
    """One plain env as Gymnasium gives it, with its time limit and wrappers: to evaluate, watch or film."""
    from rlstudio.envs.single import Recipe

    return Recipe(cfg).build(render_mode)


def known_envs() -> list[EnvInfo]:
    """All registered ids, ours included, in name order."""
    import gymnasium

    found = {id: EnvInfo(id, _origin(str(spec.entry_point)), id in WORLDS) for id, spec in gymnasium.registry.items()}
    found |= {id: EnvInfo(id, "rlstudio", True) for id in WORLDS if id.startswith(OURS)}
    return [found[id] for id in sorted(found)]


def _origin(entry_point: str) -> str:
    """`gymnasium.envs.classic_control.cartpole:CartPoleEnv` is of `gymnasium.classic_control`."""
    parts = entry_point.partition(":")[0].split(".")
    return f"gymnasium.{parts[2]}" if parts[:2] == ["gymnasium", "envs"] and len(parts) > 2 else parts[0]
