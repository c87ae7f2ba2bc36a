"""Environments to choose from: which there are, which could be installed, whether one is fit to train on."""

from __future__ import annotations

from rlstudio.core.spaces import Spaces
from rlstudio.envs.check import check_env
from rlstudio.envs.check_play import Amount
from rlstudio.envs.check_report import EnvReport
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.extras import EXTRAS, EnvExtra
from rlstudio.envs.make import EnvInfo, known_envs, refuse_unknown, single_spaces
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.envs.python_envs import EnvObject, bind, given_env, refuse_elsewhere
from rlstudio.envs.worlds.catalog import exists_only_here

__all__ = [
    "EnvConfig",
    "EnvInfo",
    "EnvObject",
    "EnvReport",
    "bind",
    "check",
    "exists_only_here",
    "given_env",
    "is_pettingzoo",
    "known_envs",
    "missing_extras",
    "refuse_elsewhere",
    "spaces_of",
]


def missing_extras() -> list[EnvExtra]:
    """The extras that would bring more environments and are not installed."""
    return [extra for extra in EXTRAS if not extra.installed]


def spaces_of(cfg: EnvConfig) -> Spaces:
    """What an environment shows and takes; it is made for that, and closed."""
    return single_spaces(cfg)


def check(cfg: EnvConfig, steps: int | None = None) -> EnvReport:
    """Shapes, bounds, finite numbers, seeding and replay of one environment, tried out; `steps`: how long to play."""
    refuse_unknown(cfg)  # it is not a line of the report
    return check_env(cfg) if steps is None else check_env(cfg, Amount.of_steps(steps))
