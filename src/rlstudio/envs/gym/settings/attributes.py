"""Numbers in an env object by their address: `length`, `opt.timestep`, `goal[0]`; and those of an env that sets them
itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from rlstudio.core.errors import ConfigError, suggest
from rlstudio.envs.gym.settings.derived import derived_of, names_of
from rlstudio.envs.params.parameters import Parameter

ADDRESS = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\[(-?\d+)\])?")
Write = Callable[[float], None]


class Attribute:
    """`own` is the env's value when it was made; whole numbers and switches stay what they are."""

    def __init__(self, env: gymnasium.Env, parameter: Parameter, env_id: str) -> None:
        address = names_of(env).get(parameter.address, parameter.address)
        if (derived := derived_of(env)) and address in derived:
            raise ConfigError(f"env.params: {env_id} computes {address} from other attributes; set those instead")
        match = ADDRESS.fullmatch(address)
        holder: Any = env
        if match:
            *way, name = match[1].split(".")
            for part in way:
                holder = getattr(holder, part, None)
        if match is None or not hasattr(holder, name):
            raise ConfigError(unknown(env, parameter, env_id))
        key = None if match[2] is None else int(match[2])
        held = getattr(holder, name)
        try:
            value = held if key is None else held[key]
        except (TypeError, IndexError, KeyError) as error:
            raise ConfigError(f"env.params: {env_id} has no {address}: {error}") from error
        if not isinstance(value, bool | int | float | np.integer | np.floating | np.bool):
            what = type(value).__name__
            raise ConfigError(f"env.params: {address} of {env_id} is a {what}, not a number; name one of its numbers")
        self.own = float(value)
        self._holder, self._name, self._key, self._kind = holder, name, key, type(value)

    def write(self, value: float) -> None:
        number = self._kind(value) if self._is_whole(value) else value
        if self._key is None:
            setattr(self._holder, self._name, number)
        else:
            getattr(self._holder, self._name)[self._key] = number

    def _is_whole(self, value: float) -> bool:
        return issubclass(self._kind, bool | int | np.integer | np.bool) and float(value).is_integer()


def unknown(env: gymnasium.Env, parameter: Parameter, env_id: str) -> str:
    """The line about a name that an env does not have."""
    known = sorted(names_of(env).keys() | _numbers(env))
    near = suggest(parameter.address, known)
    return (
        f"env.params: {env_id} has no attribute {parameter.address!r}{near or ';'} it has:"
        f" {', '.join(known) or 'none'}; kwarg:NAME is an argument of its constructor, reset:NAME an option of reset"
    )


def _numbers(env: gymnasium.Env) -> set[str]:
    derived = derived_of(env)
    held = {**{name: value for kind in reversed(type(env).__mro__) for name, value in vars(kind).items()}, **vars(env)}
    plain = {name for name, value in held.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    return {name for name in plain if not name.startswith("_") and name not in derived}


class OwnSetter:
    """An env with a method `set_params(**values)`. What it has may stand in its mapping `params`; else its attributes
    of the same names count as its own values."""

    def __init__(self, env: gymnasium.Env, parameters: list[Parameter], env_id: str) -> None:
        self._set: Callable[..., None] = env.set_params  # type: ignore[attr-defined]
        self._env_id = env_id
        listed = getattr(env, "params", None)
        if isinstance(listed, Mapping):
            known: list[str] | None = list(listed)
        else:
            taken = inspect.signature(self._set).parameters.values()
            is_open = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken)
            known = None if is_open else [each.name for each in taken]
        for each in parameters:
            if known is not None and each.address not in known:
                near = suggest(each.address, known) or ";"
                raise ConfigError(
                    f"env.params: set_params of {env_id} takes no {each.address!r}{near} it takes: {', '.join(known)}"
                )
        self.own = {each.address: _own(env, listed, each.address) for each in parameters}

    def write(self, values: Mapping[str, float]) -> None:
        try:
            self._set(**values)
        except TypeError as error:
            raise ConfigError(f"env.params: set_params of {self._env_id} refuses {dict(values)}: {error}") from error


def _own(env: gymnasium.Env, listed: object, name: str) -> float | None:
    value = listed.get(name) if isinstance(listed, Mapping) else getattr(env, name, None)
    return float(value) if isinstance(value, int | float | np.integer | np.floating) else None
