"""What the parameters of coming episodes are drawn from.

A Draw is a mixture: an episode first takes one of its components, in proportion to their weights, and then each
parameter from that component's distribution. Domain randomisation is one component; stages of a curriculum, levels and
boundaries of ranges are several. Every number is a pure function of (seed, version, env, episode, parameter name), by
the hash of `envs/seeds.py`: which process asks, in which order and for how many envs at once changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from pydantic import JsonValue

from rlstudio.core.contracts.arrays import AnyArray
from rlstudio.core.rng import Rng
from rlstudio.envs.params.distributions import Constant, Distribution, distribution, pick, require_weights
from rlstudio.envs.params.parameters import Parameter
from rlstudio.envs.seeds import episode_words, to_uniform

COMPONENT = ""  # in place of a parameter's name: the number that picks the component


@dataclass(frozen=True)
class Component:
    """One way to draw an episode: a stage, a level, a boundary."""

    weight: float
    params: Mapping[str, Distribution]
    label: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        params: dict[str, JsonValue] = {name: drawn_from.to_json() for name, drawn_from in self.params.items()}
        return {"weight": self.weight, "params": params, "label": self.label}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Component:
        params = {name: distribution(given) for name, given in value["params"].items()}
        return cls(value["weight"], params, value["label"])


@dataclass(frozen=True)
class Draw:
    """`version` counts changes and is part of the address of every number. The parameters in `once` have one number
    for each env, the same in all of its episodes and versions of the Draw."""

    version: int
    components: tuple[Component, ...]
    once: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.components:
            raise ValueError("a Draw has at least one component")
        require_weights(tuple(component.weight for component in self.components))
        for component in self.components:
            if set(component.params) != set(self.names):
                raise ValueError(
                    f"all components of a Draw have the same parameters: {', '.join(sorted(component.params))} of"
                    f" {component.label!r} are not {', '.join(sorted(self.names))}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.components[0].params)

    def to_json(self) -> dict[str, JsonValue]:
        components: list[JsonValue] = [cast(JsonValue, component.to_json()) for component in self.components]
        return {"version": self.version, "components": components, "once": list(self.once)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Draw:
        components = tuple(Component.from_json(component) for component in value["components"])
        return cls(value["version"], components, tuple(value["once"]))


def draw_from(parameters: Iterable[Parameter]) -> Draw | None:
    """What the episodes of these parameters are drawn from, before anything changes it; None: all are nominal."""
    drawn = [parameter for parameter in parameters if parameter.drawn_from is not None]
    if not drawn:
        return None
    component = Component(1.0, {each.name: cast(Distribution, each.drawn_from) for each in drawn})
    return Draw(0, (component,), tuple(each.name for each in drawn if each.every == "run"))


def draw_to_json(draw: Draw | None) -> dict[str, JsonValue] | None:
    return None if draw is None else draw.to_json()


def draw_from_json(value: Mapping[str, Any] | None) -> Draw | None:
    return None if value is None else Draw.from_json(value)


def constants(values: Mapping[str, float]) -> Draw:
    """A Draw that always gives these numbers."""
    return Draw(0, (Component(1.0, {name: Constant(value) for name, value in values.items()}),))


def sample(draw: Draw, seed: int, envs: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Of these episodes [n] of these envs [n]: the component of each, and the value of every parameter, float64 [n]."""
    names = draw.names
    uniform = _uniform(_key(seed, draw.version), envs, episodes, (COMPONENT, *names))
    columns = dict(zip(names, uniform.T[1:], strict=True))
    if draw.once:
        once = _uniform(_key(seed, None), envs, np.zeros_like(episodes), draw.once)
        columns |= zip(draw.once, once.T, strict=True)
    first = draw.components[0]
    if len(draw.components) == 1:
        values = {name: first.params[name].values(column) for name, column in columns.items()}
        return np.zeros(len(envs), np.int64), values
    components = pick(tuple(component.weight for component in draw.components), uniform[:, 0])
    values = {name: np.empty(len(envs)) for name in names}
    for index in np.unique(components).tolist():
        rows = components == index
        for name, drawn_from in draw.components[index].params.items():
            values[name][rows] = drawn_from.values(columns[name][rows])
    return components, values


def _uniform(key: int, envs: np.ndarray, episodes: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Numbers in [0, 1), a column for each name."""
    address = envs[:, None], episodes[:, None], _places(names)
    return cast(np.ndarray, to_uniform(episode_words(key, *(cast(AnyArray, part) for part in address))))


@lru_cache(maxsize=1024)
def _places(names: tuple[str, ...]) -> np.ndarray:
    """What names are in the address."""
    words = [int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True) for name in names]
    return np.array(words, np.int64)


@lru_cache(maxsize=1024)
def _key(seed: int, version: int | None) -> int:
    """The hash key of a seed and a version; None: of numbers that no version changes."""
    rng = Rng(seed).fork("params").fork("once" if version is None else version)
    return int(rng.generator().integers(-(2**63), 2**63, dtype=np.int64))
