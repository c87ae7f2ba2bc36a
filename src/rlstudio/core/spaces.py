"""Spaces as plain frozen values: what an environment shows and takes, free of any library's objects.

They compare, hash and write as JSON, so they can sit in a checkpoint or a bundle and be checked against another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from rlstudio.core.errors import UserError

LARGEST = 10**8  # numbers in one space; beyond it a file is wrong, not large


@dataclass(frozen=True)
class Stack:
    """The first axis of a Box is `size` successive frames, from old to new; in an episode younger than that, the first
    places hold its first frame (`reset`) or zeros (`zero`)."""

    size: int
    padding: str


@dataclass(frozen=True)
class Box:
    """Numbers of one shape and dtype; `low` and `high` are flat tuples (one bound per element) or one bound for all."""

    shape: tuple[int, ...]
    dtype: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    stack: Stack | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_image(self) -> bool:
        return self.dtype == "uint8" and len(self.shape) == 3

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """`low` and `high` as arrays of the space's shape."""
        low, high = (np.broadcast_to(np.asarray(side, self.dtype), self.size) for side in (self.low, self.high))
        return low.reshape(self.shape), high.reshape(self.shape)


@dataclass(frozen=True)
class Discrete:
    """One of `n` choices, numbered from `start`."""

    n: int
    start: int = 0

    shape: tuple[int, ...] = ()
    dtype: str = "int64"


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices at once; `nvec[i]` options for the i-th, numbered from `start[i]` (none given: from 0)."""

    nvec: tuple[int, ...]
    start: tuple[int, ...] = ()

    dtype: str = "int64"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.nvec),)


@dataclass(frozen=True)
class Dict:
    """Named spaces, one level deep, in name order."""

    entries: tuple[tuple[str, Box | Discrete | MultiDiscrete], ...]

    def items(self) -> tuple[tuple[str, Box | Discrete | MultiDiscrete], ...]:
        return self.entries


Leaf = Box | Discrete | MultiDiscrete
Space = Box | Discrete | MultiDiscrete | Dict
"""What an observation or an action can be."""


@dataclass(frozen=True)
class Spaces:
    """Observations and actions of one environment, not of the vector of them.

    `infos` are the keys of its `info` that are kept as columns. They do not count when spaces are compared or written:
    an agent fits an environment whichever of its infos are kept."""

    observation: Space
    action: Space
    infos: tuple[str, ...] = field(default=(), compare=False)


def to_json(space: Space) -> dict[str, Any]:
    """The space as plain JSON values; `from_json` gives it back."""
    match space:
        case Box():
            bounds = {side: [repr(float(v)) for v in getattr(space, side)] for side in ("low", "high")}
            stack = {} if space.stack is None else {"stack": [space.stack.size, space.stack.padding]}
            return {"kind": "box", "shape": list(space.shape), "dtype": space.dtype, **bounds, **stack}
        case Discrete():
            return {"kind": "discrete", "n": space.n, "start": space.start}
        case MultiDiscrete():
            return {"kind": "multi_discrete", "nvec": list(space.nvec), "start": list(space.start)}
        case Dict():
            return {"kind": "dict", "entries": {name: to_json(entry) for name, entry in space.items()}}


def from_json(value: dict[str, Any]) -> Space:
    match value["kind"]:
        case "box":
            low, high = (tuple(float(v) for v in value[side]) for side in ("low", "high"))
            stack = Stack(*value["stack"]) if "stack" in value else None
            return Box(tuple(value["shape"]), value["dtype"], low, high, stack)
        case "discrete":
            return Discrete(value["n"], value["start"])
        case "multi_discrete":
            return MultiDiscrete(tuple(value["nvec"]), tuple(value.get("start", ())))
        case "dict":
            return Dict(tuple((name, from_json(entry)) for name, entry in value["entries"].items()))  # type: ignore[misc]
    raise UserError(f"unknown space kind {value['kind']!r}; known: box, dict, discrete, multi_discrete")


def check_shape(sizes: tuple[int, ...]) -> None:
    """ValueError where no such array can be meant."""
    if any(type(n) is not int or n < 1 for n in sizes) or prod(sizes) > LARGEST:
        raise ValueError(f"impossible sizes {list(sizes)[:8]}")


def check_sizes(space: Space) -> None:
    """ValueError where no such space can be meant: what comes from a file is checked before anything is built of it."""
    leaves: tuple[Leaf, ...] = tuple(entry for _, entry in space.items()) if isinstance(space, Dict) else (space,)
    for leaf in leaves:
        sizes = leaf.shape if isinstance(leaf, Box) else leaf.nvec if isinstance(leaf, MultiDiscrete) else (leaf.n,)
        if any(type(n) is not int or n < 1 for n in sizes) or _numbers(leaf, sizes) > LARGEST:
            raise ValueError(f"impossible sizes {list(sizes)[:8]}")
        if isinstance(leaf, Box):
            if leaf.dtype not in ("float32", "uint8"):
                raise ValueError(f"unknown dtype {leaf.dtype!r}")
            if any(len(side) not in (1, leaf.size) for side in (leaf.low, leaf.high)):
                raise ValueError("bounds of another size")


def _numbers(leaf: Leaf, sizes: tuple[int, ...]) -> int:
    return leaf.size if isinstance(leaf, Box) else sum(sizes)


def describe(space: Space) -> str:
    """One short phrase for messages and headers: `Box(4) float32`, `Discrete(2)`."""
    match space:
        case Box():
            return f"Box{space.shape} {space.dtype}"
        case Discrete():
            return f"Discrete({space.n})"
        case MultiDiscrete():
            return f"MultiDiscrete{space.nvec}"
        case Dict():
            return "Dict(" + ", ".join(f"{name}: {describe(entry)}" for name, entry in space.items()) + ")"
