"""Environments to choose from: which there are, which could be installed, whether one is fit to train on."""

from __future__ import annotations

from importlib.resources import files
from math import ceil
from pathlib import Path

from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Spaces
from rlstudio.envs.check import check_env
from rlstudio.envs.check_play import Amount
from rlstudio.envs.check_report import EnvReport
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.extras import EXTRAS, EnvExtra
from rlstudio.envs.make import (
    EnvInfo,
    agents_of,
    has_only_a_vector,
    known_envs,
    refuse_unknown,
    resolve_vectorization,
    single_spaces,
)
from rlstudio.envs.own_modules import module_name
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.envs.python_envs import EnvObject, bind, given_env, refuse_elsewhere
from rlstudio.envs.worlds.catalog import exists_only_here, has_equations
from rlstudio.experiment.config.experiment import ExperimentConfig

__all__ = [
    "EnvConfig",
    "EnvInfo",
    "EnvObject",
    "EnvReport",
    "bind",
    "check",
    "exists_only_here",
    "given_env",
    "has_equations",
    "has_only_a_vector",
    "is_pettingzoo",
    "known_envs",
    "missing_extras",
    "refuse_elsewhere",
    "spaces_of",
    "steps_of_all_agents",
    "template",
]


def missing_extras() -> list[EnvExtra]:
    """The extras that would bring more environments and are not installed."""
    return [extra for extra in EXTRAS if not extra.installed]


def spaces_of(cfg: EnvConfig) -> Spaces:
    """What an environment shows and takes; it is made for that, and closed."""
    return single_spaces(cfg)


def template(kind: str, file: Path) -> str:
    """The text of a file to begin with: a `world` or a `vector_env`, named as this file."""
    name = f"my_{kind}"
    try:
        module = module_name(str(file))
    except ValueError as error:
        raise UserError(str(error)) from error
    text = files("rlstudio.envs.templates").joinpath(f"{name}.py").read_text(encoding="utf-8")
    return text.replace(f"{name}.py", str(file)).replace(name, module)


def check(cfg: EnvConfig, steps: int | None = None) -> EnvReport:
    """Shapes, bounds, finite numbers, seeding and replay of one environment, tried out; `steps`: how long to play."""
    refuse_unknown(cfg)  # it is not a line of the report
    return check_env(cfg) if steps is None else check_env(cfg, Amount.of_steps(steps))


def steps_of_all_agents(cfg: ExperimentConfig) -> int:
    """The steps of an epoch, rounded up to whole rollouts of all agents of all environments."""
    agents = agents_of(cfg.env, resolve_vectorization(cfg.env))
    at_once = cfg.env.num_envs * agents * (getattr(cfg.train, "rollout_steps", None) or 1)
    return ceil(cfg.train.steps_per_epoch / at_once) * at_once
