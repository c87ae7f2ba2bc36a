"""What one parameter is drawn from: a function from a uniform number in [0, 1) to a value, its inverse distribution
function. One uniform number gives one value, so a value has an address and needs no generator.

    constant c          c
    uniform a b         a + (b - a) u
    log_uniform a b     exp(log a + (log b - log a) u)
    normal m s          m + s Phi^-1(u), with bounds: of the part of the distribution that lies between them
    choice v1 .. vn     v_i with the probability w_i / sum(w)

Logarithms, powers and Phi are Python's, number by number: NumPy's may round otherwise in arrays of another length, and
a value must not depend on how many envs are reset at once. Free of NumPy until something is drawn, as configs are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import JsonValue

if TYPE_CHECKING:
    import numpy as np

STANDARD = NormalDist()
SMALLEST = 2.0**-54  # in place of 0, where Phi^-1 is not finite
TAIL = 0.025  # of a normal distribution, beyond its usual values


@dataclass(frozen=True)
class Constant:
    value: float

    def __post_init__(self) -> None:
        _require_finite(self.value)

    def values(self, uniform: np.ndarray) -> np.ndarray:
        return _like(uniform, [self.value] * uniform.size)

    @property
    def range(self) -> tuple[float, float]:
        return self.value, self.value

    def to_json(self) -> JsonValue:
        return self.value


@dataclass(frozen=True)
class Uniform:
    low: float
    high: float

    def __post_init__(self) -> None:
        _require_order(self.low, self.high)

    def values(self, uniform: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.low + (self.high - self.low) * uniform
        return values.clip(max=self.high)

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    def to_json(self) -> JsonValue:
        return {"uniform": [self.low, self.high]}


@dataclass(frozen=True)
class LogUniform:
    low: float
    high: float

    def __post_init__(self) -> None:
        _require_order(self.low, self.high)
        if self.low <= 0:
            raise ValueError(f"log_uniform needs numbers above 0, got {self.low:g}")

    def values(self, uniform: np.ndarray) -> np.ndarray:
        low, high = math.log(self.low), math.log(self.high)
        drawn = [math.exp(low + (high - low) * number) for number in uniform.ravel().tolist()]
        return _like(uniform, drawn).clip(self.low, self.high)

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    def to_json(self) -> JsonValue:
        return {"log_uniform": [self.low, self.high]}


@dataclass(frozen=True)
class Normal:
    mean: float
    std: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        _require_finite(self.mean, self.std)
        if self.std < 0:
            raise ValueError(f"normal needs a deviation of at least 0, got {self.std:g}")
        if not self.low < self.high:
            raise ValueError(f"the bounds {self.low:g} and {self.high:g} of normal are not in order")
        if self.std == 0 and not self.low <= self.mean <= self.high:
            raise ValueError(f"normal has no deviation, and its mean {self.mean:g} is not within its bounds")
        if self.std and not self._share[1] > self._share[0]:
            raise ValueError(f"normal {self.mean:g}, {self.std:g} never lies between {self.low:g} and {self.high:g}")

    @cached_property
    def _share(self) -> tuple[float, float]:
        """How much of the distribution lies below either bound."""
        below, above = ((bound - self.mean) / self.std for bound in (self.low, self.high))
        return STANDARD.cdf(below), STANDARD.cdf(above)

    def values(self, uniform: np.ndarray) -> np.ndarray:
        return _like(uniform, [self._value(number) for number in uniform.ravel().tolist()])

    def _value(self, uniform: float) -> float:
        if self.std == 0:
            return self.mean
        first, last = self._share
        share = min(max(first + (last - first) * uniform, SMALLEST), 1 - 2.0**-53)
        return min(max(self.mean + self.std * STANDARD.inv_cdf(share), self.low), self.high)

    @property
    def range(self) -> tuple[float, float]:
        """Where nearly all values lie: between the 2.5 % and the 97.5 % quantile."""
        return self._value(TAIL), self._value(1 - TAIL)

    def to_json(self) -> JsonValue:
        bounds = {"low": self.low, "high": self.high}
        return {"normal": [self.mean, self.std], **{name: at for name, at in bounds.items() if math.isfinite(at)}}


@dataclass(frozen=True)
class Choice:
    options: tuple[float, ...]
    weights: tuple[float, ...] = ()  # none: all alike

    def __post_init__(self) -> None:
        if not self.options:
            raise ValueError("choice needs at least one number")
        _require_finite(*self.options)
        if self.weights:
            if len(self.weights) != len(self.options):
                raise ValueError(f"choice has {len(self.options)} numbers and {len(self.weights)} weights")
            require_weights(self.weights)

    def values(self, uniform: np.ndarray) -> np.ndarray:
        picked = pick(self.weights or (1.0,) * len(self.options), uniform)
        return _like(uniform, [self.options[index] for index in picked.ravel().tolist()])

    @property
    def range(self) -> tuple[float, float]:
        return min(self.options), max(self.options)

    def to_json(self) -> JsonValue:
        weights: dict[str, JsonValue] = {"weights": list(self.weights)} if self.weights else {}
        return {"choice": list(self.options), **weights}


Distribution: TypeAlias = Constant | Uniform | LogUniform | Normal | Choice
"""`values(uniform)` gives a value for each number in [0, 1); `range` the lowest and the highest usual value."""

FORMS = "a number, {uniform: [a, b]}, {log_uniform: [a, b]}, {normal: [mean, std]} or {choice: [a, b, ...]}"


def distribution(value: float | Mapping[str, Any]) -> Distribution:
    """From the form that configs and checkpoints have; ValueError says what is wrong with it."""
    if not isinstance(value, Mapping):
        return Constant(_number(value))
    kinds = [kind for kind in ("uniform", "log_uniform", "normal", "choice") if kind in value]
    if len(kinds) != 1:
        raise ValueError(f"a parameter is {FORMS}")
    kind = kinds[0]
    numbers = _numbers(kind, value[kind])
    options = {"normal": ("low", "high"), "choice": ("weights",)}.get(kind, ())
    for name in value:
        if name != kind and name not in options:
            raise ValueError(f"{kind} has no option {name!r}; {_known(options)}")
    if kind == "choice":
        return Choice(numbers, _numbers("weights", value["weights"]) if "weights" in value else ())
    if len(numbers) != 2:
        raise ValueError(f"{kind} takes two numbers, got {len(numbers)}")
    if kind == "normal":
        return Normal(*numbers, **{name: _number(value[name]) for name in options if name in value})
    return (Uniform if kind == "uniform" else LogUniform)(*numbers)


def pick(weights: tuple[float, ...], uniform: np.ndarray) -> np.ndarray:
    """Indices in proportion to the weights."""
    import numpy as np

    bounds = np.cumsum(weights)
    indices: np.ndarray = np.searchsorted(bounds, uniform * bounds[-1], side="right")
    last = int(np.flatnonzero(weights)[-1])
    return indices.clip(max=last)  # rounding must not reach past it


def require_weights(weights: tuple[float, ...]) -> None:
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights) > 0:
        raise ValueError("weights are numbers of at least 0, one of them above 0")


def _like(uniform: np.ndarray, values: list[float]) -> np.ndarray:
    """The values as an array of the same shape."""
    array = uniform.copy()
    array.flat[:] = values
    return array


def _numbers(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} takes a list of numbers")
    return tuple(_number(each) for each in value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _known(options: tuple[str, ...]) -> str:
    return f"it has {' and '.join(options)}" if options else "leave it out"


def _require_finite(*numbers: float) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a finite number")


def _require_order(low: float, high: float) -> None:
    _require_finite(low, high)
    if low > high:
        raise ValueError(f"the range {low:g} to {high:g} is not in order; give the lower number first")
