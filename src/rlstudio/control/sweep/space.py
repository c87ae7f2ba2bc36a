"""Space: the settings a sweep chooses, with their conditions. Parameters are path -> value, in plain JSON kinds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlstudio.control.sweep.config import Dimension
from rlstudio.core.errors import ConfigError

Params = dict[str, object]
LARGEST_GRID = 100_000


def number_of(value: object) -> float:
    """The value of a setting that has a range."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


@dataclass(frozen=True)
class Axis:
    """One setting, ready to be chosen: a list of values, or a range of numbers."""

    path: str
    dimension: Dimension
    whole: bool  # a whole number

    @property
    def choices(self) -> tuple[object, ...] | None:
        return self.dimension.choices

    @property
    def low(self) -> float:
        return float(self.dimension.low or 0)

    @property
    def high(self) -> float:
        return float(self.dimension.high or 0)

    @property
    def step(self) -> float | None:
        return self.dimension.step or (1 if self.whole else None)

    def ends(self) -> Sequence[object]:
        """The values whose validity stands for all others."""
        if self.choices is not None:
            return self.choices
        return (self.value(0.0), self.value(1.0))

    def value(self, share: float) -> object:
        """From [0, 1] to a value. Each value that a step allows has an equal share."""
        if self.choices is not None:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.dimension.log:
            spread = 0.5 if self.whole else 0.0  # also the first and the last whole number have a whole share
            low, high = math.log(self.low - spread), math.log(self.high + spread)
            return self.fit(math.exp(low + share * (high - low)))
        if self.step is not None:
            return self.fit(self.low + self.step * min(int(share * self.count()), self.count() - 1))
        return self.fit(self.low + share * (self.high - self.low))

    def share(self, value: object) -> float:
        """The inverse of `value`: the middle of the numbers in [0, 1] that it maps to this value."""
        if self.choices is not None:
            return (self.choices.index(value) + 0.5) / len(self.choices)
        number = number_of(value)
        if self.dimension.log:
            spread = 0.5 if self.whole else 0.0
            low, high = math.log(self.low - spread), math.log(self.high + spread)
            return (math.log(number) - low) / (high - low)
        if self.step is not None:
            return (round((number - self.low) / self.step) + 0.5) / self.count()
        return (number - self.low) / (self.high - self.low)

    def fit(self, value: float) -> float:
        """The nearest value there is."""
        value = min(max(value, self.low), self.high)
        if self.step is not None:
            value = self.low + self.step * min(round((value - self.low) / self.step), self.count() - 1)
        return round(value) if self.whole else float(value)

    def count(self) -> int:
        """How many values there are; 0 for a range without steps."""
        if self.choices is not None:
            return len(self.choices)
        return 0 if self.step is None else int((self.high - self.low) / self.step * (1 + 1e-12)) + 1


class Space:
    def __init__(self, dimensions: Mapping[str, Dimension], base: Mapping[str, object]) -> None:
        """`base` is the experiment as plain data: where the space does not say whether a number is whole, it does.
        A ConfigError for a condition that can never hold."""
        self.axes = [
            Axis(path, dimensions[path], _is_whole(dimensions[path], path, base)) for path in _order(dimensions)
        ]

    def __getitem__(self, path: str) -> Axis:
        return next(axis for axis in self.axes if axis.path == path)

    def active(self, axis: Axis, params: Mapping[str, object]) -> bool:
        """Whether the settings before it ask for this one."""
        return all(path in params and params[path] in _listed(wanted) for path, wanted in axis.dimension.when.items())

    def at(self, shares: Mapping[str, float]) -> Params:
        """Parameters from a number in [0, 1] for each path; what no condition asks for is left out."""
        params: Params = {}
        for axis in self.axes:
            if self.active(axis, params):
                params[axis.path] = axis.value(shares[axis.path])
        return params

    def random(self, generator: np.random.Generator) -> Params:
        """Every axis has its own number, asked for or not: a condition does not move the others."""
        return self.at({axis.path: float(generator.random()) for axis in self.axes})

    def grid(self) -> list[Params]:
        """Every combination, the last path changing fastest."""
        for axis in self.axes:
            if not axis.count():
                raise ConfigError(f"space.{axis.path}: grid needs choices, a step or whole numbers; give one of them")
        combinations = list(itertools.islice(self._combinations(self.axes, {}), LARGEST_GRID + 1))
        if len(combinations) > LARGEST_GRID:
            raise ConfigError(f"space: the grid has more than {LARGEST_GRID:,} combinations; use random")
        return combinations

    def _combinations(self, axes: Sequence[Axis], params: Params) -> Iterator[Params]:
        if not axes:
            yield dict(params)
            return
        axis, *rest = axes
        if not self.active(axis, params):
            yield from self._combinations(rest, params)
            return
        for index in range(axis.count()):
            value = axis.choices[index] if axis.choices is not None else axis.fit(axis.low + index * (axis.step or 1))
            yield from self._combinations(rest, {**params, axis.path: value})

    def needed(self, axis: Axis) -> Params:
        """Settings under which an axis is asked for: the first that each condition names."""
        params: Params = {}
        for path, wanted in axis.dimension.when.items():
            params |= self.needed(self[path])
            params[path] = _listed(wanted)[0]
        return params


def _order(dimensions: Mapping[str, Dimension]) -> list[str]:
    """The paths as written, but each after those that its conditions name."""
    for path, dimension in dimensions.items():
        for other, wanted in dimension.when.items():
            at = f"space.{path}.when.{other}"
            if other not in dimensions:
                raise ConfigError(f"{at}: is not in the space; a condition names another of its settings")
            choices = dimensions[other].choices
            if choices is None:
                raise ConfigError(f"{at}: {other} has a range; a condition needs choices")
            for value in _listed(wanted):
                if value not in choices:
                    known = ", ".join(map(str, choices))
                    raise ConfigError(f"{at}: {other} is never {value}; its choices: {known}")
    placed: list[str] = []
    left = list(dimensions)
    while left:
        ready = [path for path in left if all(other in placed for other in dimensions[path].when)]
        if not ready:
            raise ConfigError(f"space.{left[0]}.when: depends on itself; take one condition out of the circle")
        placed.append(ready[0])
        left.remove(ready[0])
    return placed


def _listed(wanted: object) -> list[object]:
    return list(wanted) if isinstance(wanted, list | tuple) else [wanted]


def _is_whole(dimension: Dimension, path: str, base: Mapping[str, object]) -> bool:
    if dimension.choices is not None:
        return False
    if dimension.type is not None:
        return dimension.type == "int"
    default: object = base
    for part in path.split("."):
        default = default.get(part) if isinstance(default, Mapping) else None
    given = [dimension.low, dimension.high, *([] if dimension.step is None else [dimension.step])]
    return all(isinstance(value, int) for value in given) and not isinstance(default, float)
