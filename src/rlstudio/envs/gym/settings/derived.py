"""What Gymnasium's own envs compute once in their constructor from numbers that may be set, and what our worlds call
those numbers. An env of another package brings a method `set_params(**values)` where it computes something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

CLASSIC = "gymnasium.envs.classic_control"

DERIVED: dict[str, dict[str, Callable[[Any], float]]] = {
    f"{CLASSIC}.cartpole.CartPoleEnv": {
        "total_mass": lambda env: env.masspole + env.masscart,
        "polemass_length": lambda env: env.masspole * env.length,
    },
}

NAMES: dict[str, dict[str, str]] = {
    f"{CLASSIC}.cartpole.CartPoleEnv": {"mass_cart": "masscart", "mass_pole": "masspole", "force": "force_mag"},
    f"{CLASSIC}.pendulum.PendulumEnv": {"gravity": "g", "mass": "m", "length": "l"},
    f"{CLASSIC}.continuous_mountain_car.Continuous_MountainCarEnv": {"force": "power"},
}
"""A parameter of our own world -> the attribute of Gymnasium's env, where they differ: one config fits both."""


def derived_of(env: gymnasium.Env) -> dict[str, Callable[[Any], float]]:
    """Attributes that are computed from others, also of an env that extends one of Gymnasium's."""
    return {name: compute for kind in _kinds(env) for name, compute in DERIVED.get(kind, {}).items()}


def names_of(env: gymnasium.Env) -> dict[str, str]:
    return {name: attribute for kind in _kinds(env) for name, attribute in NAMES.get(kind, {}).items()}


def _kinds(env: gymnasium.Env) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(env).__mro__]
