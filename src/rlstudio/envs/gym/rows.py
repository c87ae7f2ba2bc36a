"""The rows of a vector of envs: arrays in this process's memory or shared with workers, and how one env fills its row.

Every step of every plain env passes `deliverer`, so its usual case is two comparisons and one copy. Anything else is
looked at slowly and named: a wrong shape would broadcast and a wrong kind would be cut off without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import nan, prod
from mmap import mmap
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Array, Step
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Spaces

Allocate = Callable[[tuple[int, ...], DTypeLike], np.ndarray]
Deliver = Callable[[object], None]

ALIGN = 64


class Buffers:
    """One row per env; a Dict observation is a dict of arrays. Every process that lays them out finds them alike."""

    def __init__(
        self, spaces: Spaces, num_envs: int, allocate: Allocate = np.zeros, agents: tuple[int, ...] = ()
    ) -> None:
        """`agents`: axes that follow the one of the envs, before those of the spaces."""
        lead = (num_envs, *agents)

        def rows(space: Space) -> Array:
            if isinstance(space, Dict):
                return {name: rows_of(entry) for name, entry in space.items()}
            return rows_of(space)

        def rows_of(leaf: Leaf) -> np.ndarray:
            return allocate((*lead, *leaf.shape), leaf.dtype)

        self.observations = rows(spaces.observation)
        self.successors = rows(spaces.observation)
        self.actions = rows(spaces.action)
        self.rewards = allocate(lead, np.float32)
        self.terminated = allocate(lead, bool)
        self.truncated = allocate(lead, bool)
        self.infos = {key: allocate(lead, np.float32) for key in spaces.infos}

    def quiet_step(self) -> Step:
        """A step in which no episode ended; it stays valid, since the arrays are written again."""
        return Step(self.observations, self.observations, self.rewards, self.terminated, self.truncated, self.infos)

    def part(self, first: int, count: int) -> Self:
        """The rows of some of the envs, as views."""
        part = object.__new__(type(self))
        for name, rows in vars(self).items():
            span = slice(first, first + count)
            setattr(part, name, {k: v[span] for k, v in rows.items()} if isinstance(rows, dict) else rows[span])
        return part

    @property
    def in_columns(self) -> Array:
        """The observations as a vector env gives them."""
        return self.observations

    def outcome(self, quiet: Step) -> tuple[Step, np.ndarray | None]:
        """The step that the rows hold now (`quiet` where nothing ended), and which envs began another episode."""
        ended = self.ended()
        if ended is None:
            return quiet, None
        self.complete_successors(ended)
        return quiet._replace(successors=self.successors), ended

    def complete_successors(self, ended: np.ndarray) -> None:
        """Where no episode ended the successor is the observation; envs write it only where one did."""
        going_on = ~ended
        for successor, observation in zip(leaves(self.successors), leaves(self.observations), strict=True):
            successor[going_on] = observation[going_on]

    def ended(self) -> np.ndarray | None:
        """Which episodes ended in this step, or None: bytes are searched several times quicker than `any()` answers."""
        if b"\1" in self.terminated.tobytes() or b"\1" in self.truncated.tobytes():
            return np.logical_or(self.terminated, self.truncated)
        return None


def leaves(rows: Array) -> list[np.ndarray]:
    return list(rows.values()) if isinstance(rows, dict) else [rows]


class Carver:
    """Cuts aligned arrays out of one block of memory; without a block it only measures how much is needed."""

    def __init__(self, memory: mmap | None = None) -> None:
        self.size = 0
        self._memory = memory

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        count = prod(shape)
        offset, kind = self.size, np.dtype(dtype)
        self.size += -(-count * kind.itemsize // ALIGN) * ALIGN
        if self._memory is None:
            return np.empty((0, *shape[1:]), kind)
        return np.frombuffer(self._memory, kind, count, offset).reshape(shape)


def row_views(rows: Array, index: int) -> Iterator[np.ndarray]:
    """One env's row of each array, as views that stay valid (a scalar row keeps one dimension)."""
    for array in leaves(rows):
        yield array[index] if array.ndim > 1 else array[index : index + 1]


class Misfit(Exception):
    """The env broke its own spaces; the message says how."""


def deliverer(space: Space, rows: Array, index: int, mask: ActionMask | None = None) -> Deliver:
    """A function that puts an observation of env `index` into `rows`, or raises Misfit; with the rule of its action
    mask, also where an observation to act on allows no action."""
    return deliverer_into(space, list(row_views(rows, index)), mask)


def deliverer_into(space: Space, views: list[np.ndarray], mask: ActionMask | None = None) -> Deliver:
    """The same for a view of each entry."""
    if isinstance(space, Dict):
        return _dict_deliverer(space, views, mask)
    return _leaf_deliverer(space, views[0], "observation")


def kinds_of(leaf: Leaf) -> str:
    """The kinds of dtype (NumPy's letters) that fit a space without being cut off."""
    return "biu" if not isinstance(leaf, Box) else "bu" if leaf.dtype == "uint8" else "biuf"


def _leaf_deliverer(leaf: Leaf, view: np.ndarray, name: str) -> Deliver:
    shape = leaf.shape
    kinds = kinds_of(leaf)
    usual = view.dtype  # replaced by the dtype that the env delivers, once its kind is known to fit

    def deliver(value: object) -> None:
        nonlocal usual
        array = value if type(value) is np.ndarray else _array(value, name)
        if array.shape != shape:
            raise Misfit(f"{name} has shape {array.shape}, its space says {shape}")
        if array.dtype is not usual:
            if array.dtype.kind not in kinds or (leaf.dtype == "uint8" and array.dtype.itemsize > 1):
                raise Misfit(f"{name} has dtype {array.dtype}, its space needs {leaf.dtype}")
            usual = array.dtype
        view[...] = array

    return deliver if isinstance(leaf, Box) else _within(leaf, deliver, view, name)


def _within(leaf: Discrete | MultiDiscrete, deliver: Deliver, view: np.ndarray, name: str) -> Deliver:
    """A choice that does not exist would crash a network, far from here. Observed choices count from 0."""
    counts = (leaf.n,) if isinstance(leaf, Discrete) else leaf.nvec
    one, first, limits = len(counts) == 1, counts[0], np.array(counts, np.uint64)
    unsigned = view.view(np.uint64)  # a negative number is a huge one

    def deliver_choice(value: object) -> None:
        deliver(value)
        if not 0 <= view.item() < first if one else (unsigned >= limits).any():
            raise Misfit(f"{name} is {np.asarray(value).tolist()}, its space counts from 0 up to {list(counts)}")

    return deliver_choice


def _dict_deliverer(space: Dict, views: list[np.ndarray], mask: ActionMask | None) -> Deliver:
    parts = [
        (name, _leaf_deliverer(leaf, view, f"observation {name!r}"))
        for (name, leaf), view in zip(space.items(), views, strict=True)
    ]
    names = {name for name, _ in parts}

    def deliver(value: object) -> None:
        if not isinstance(value, dict) or value.keys() != names:
            got = sorted(value) if isinstance(value, dict) else type(value).__name__
            raise Misfit(f"observation is {got}, its space says a dict of {sorted(names)}")
        for name, part in parts:
            part(value[name])
        if mask is not None and mask.is_empty(np.asarray(value[ACTION_MASK])):
            raise Misfit(
                f"observation {ACTION_MASK!r} allows no action; end such an episode, or allow one that does nothing"
            )

    return deliver


def _array(value: object, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise Misfit(f"{name} is not an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise Misfit(f"{name} is {type(value).__name__}, not numbers")
    return array


def info_noter(columns: dict[str, np.ndarray], index: int) -> Callable[[dict[str, object]], None]:
    """A function that puts the chosen numbers of env `index`'s info into their columns, NaN for those that it has not;
    or raises Misfit."""

    def note(info: dict[str, object]) -> None:
        for key, column in columns.items():
            value = info.get(key, nan)
            if not is_number(value):
                raise Misfit(f"info {key!r} is {_kind(value)}, not a number; leave it out of env.infos")
            column[index] = value

    return note


def is_number(value: object) -> bool:
    """Whether an info can be kept: a number or bool of Python or NumPy, also as an array without dimensions."""
    if isinstance(value, bool | int | float | np.integer | np.floating | np.bool):
        return True
    return isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "biuf"


def _kind(value: object) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
