"""Arguments of an env's constructor that are drawn: `kwarg:gravity`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rlstudio.core.errors import ConfigError, suggest
from rlstudio.envs.params.parameters import Parameter


def check_arguments(creator: Callable[..., object], parameters: Sequence[Parameter], env_id: str) -> None:
    """ConfigError for a name that the constructor does not take."""
    taken = _taken(creator)
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return
    for each in parameters:
        if each.kind == "kwarg" and each.address not in taken:
            near = suggest(each.address, list(taken)) or ";"
            raise ConfigError(
                f"env.params: the constructor of {env_id} takes no {each.address!r}{near} it takes:"
                f" {', '.join(taken) or 'nothing'}"
            )


def fitting(creator: Callable[..., object], values: dict[str, float]) -> dict[str, Any]:
    """The values as the constructor has its defaults: what counts something is a whole number for Python too."""
    taken = _taken(creator)
    return {name: _fitting(taken[name].default if name in taken else None, value) for name, value in values.items()}


def _fitting(default: object, value: float) -> float | int | bool:
    if isinstance(default, bool | int) and value.is_integer():
        return type(default)(value)
    return value


def _taken(creator: Callable[..., object]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(creator).parameters)
    except (TypeError, ValueError):  # written in C: it says itself what it does not take
        return {"kwargs": inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)}
