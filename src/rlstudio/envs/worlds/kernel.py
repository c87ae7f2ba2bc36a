"""Kernels: the arrays of `num_envs` copies of a World, advanced in place. A World may bring a faster one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import EllipsisType
from typing import Protocol, cast, runtime_checkable

import numpy as np

from rlstudio.core.contracts import Array, World
from rlstudio.core.contracts.arrays import AnyArray, Namespace
from rlstudio.core.errors import ConfigError, EnvFault, raised, suggest
from rlstudio.core.host.ram import usable_ram
from rlstudio.core.spaces import Dict, Space

NUMPY = cast(Namespace, np)
Values = Mapping[str, float | np.ndarray]
"""Parameters as the NumPy vector has them: floats, or an array [B]."""


class Kernel(Protocol):
    """Dims: B envs; with several agents all rows but the states are [B, agents]."""

    observations: Array
    rewards: np.ndarray
    terminated: np.ndarray
    active: np.ndarray | None  # as the last transition has it

    def advance(self, actions: np.ndarray) -> None:
        """One step of all envs, into the arrays above."""
        ...

    def states(self) -> np.ndarray:
        """The states [B, S], a copy."""
        ...

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        """Put these envs into these states and show them."""
        ...


@runtime_checkable
class HasKernel(Protocol):
    """A World with a kernel of its own: the same bits as its functions, in less time."""

    def kernel(self, num_envs: int, p: Values) -> Kernel: ...


@runtime_checkable
class Refreshed(Protocol):
    """A kernel that keeps numbers which it has derived from `p`."""

    def refresh(self) -> None:
        """Derive them again: numbers were written into the arrays of `p`."""
        ...


def kernel_of(world: World[np.ndarray], num_envs: int, p: Values, changes: bool = False) -> Kernel:
    """The World's own one; where the arrays of `p` change, only one that can follow them."""
    kernel = world.kernel(num_envs, p) if isinstance(world, HasKernel) else None
    if kernel is None or (changes and not isinstance(kernel, Refreshed)):
        return PlainKernel(world, num_envs, p)
    return kernel


class PlainKernel:
    """The kernel of any world: its pure functions, results copied into the reused arrays."""

    def __init__(self, world: World[np.ndarray], num_envs: int, p: Values) -> None:
        self._world: World[np.ndarray] = world
        self._p, self._p_of = p, by_rows(p)
        self._states = np.zeros((num_envs, world.state_size))
        lead = (num_envs,) if world.agents == 1 else (num_envs, world.agents)
        self.observations = empty_rows(world.spaces.observation, lead)
        self.rewards = np.zeros(lead, np.float32)
        self.terminated = np.zeros(lead, bool)
        self.active: np.ndarray | None = None

    def advance(self, actions: np.ndarray) -> None:
        p = self._p
        try:
            self._states, rewards, terminated, self.active = self._world.dynamics(self._states, actions, p, NUMPY)
            self.rewards[:] = rewards
            self.terminated[:] = terminated
            write(self.observations, slice(None), self._world.observe(self._states, p, NUMPY))
        except Exception as error:
            raise EnvFault(f"{self._world.id}: `dynamics` or `observe` raised {raised(error)}") from error

    def states(self) -> np.ndarray:
        return self._states.copy()

    def place(self, envs: np.ndarray, states: np.ndarray) -> None:
        self._states[envs] = states
        write(self.observations, envs, self._world.observe(states, self._p_of(envs), NUMPY))


def check_size(world: World[np.ndarray], num_envs: int) -> None:
    """Refuse observations that cannot fit before the first is made; they are held twice, as they are and as the
    successors of others."""
    space = world.spaces.observation
    leaves = [entry for _, entry in space.items()] if isinstance(space, Dict) else [space]
    size = sum(prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)
    needed, total = 2 * num_envs * world.agents * size, usable_ram()
    if needed > total:
        raise ConfigError(
            f"env.kwargs: an observation of {world.id} has {size:,} bytes; {num_envs:,} copies need"
            f" {needed / 2**30:,.1f} GiB, this process may use {total / 2**30:,.1f}; make it smaller"
        )


def parameters(world: World[np.ndarray], given: Values, num_envs: int) -> dict[str, float | np.ndarray]:
    """The world's own parameters with the given ones in their place; ConfigError for one that does not fit."""
    for name, value in given.items():
        if name not in world.params:
            known = f"known: {', '.join(world.params)}" if world.params else "it has none, leave env.params out"
            near = suggest(name, world.params)
            raise ConfigError(f"env.params: {world.id} has no parameter {name!r}{near or ';'} {known}")
        if isinstance(value, np.ndarray) and value.shape != (num_envs,):
            raise ConfigError(
                f"env.params: {name} of {world.id} has the shape {value.shape}; give one number, or an array with one"
                f" for each of the {num_envs} environments"
            )
    return {**world.params, **given}


def by_rows(p: Values) -> Callable[[np.ndarray], Values]:
    """The parameters of some envs, by their numbers; where all are floats, nothing is to be done at each reset."""
    if not any(isinstance(value, np.ndarray) for value in p.values()):
        return lambda envs: p
    return lambda envs: {name: value[envs] if isinstance(value, np.ndarray) else value for name, value in p.items()}


def empty_rows(space: Space, lead: tuple[int, ...]) -> Array:
    if isinstance(space, Dict):
        return {name: np.zeros((*lead, *entry.shape), entry.dtype) for name, entry in space.items()}
    return np.zeros((*lead, *space.shape), space.dtype)


def write(rows: Array, where: slice | EllipsisType | np.ndarray, values: Array) -> None:
    """Observations into rows of the kinds that their space says."""
    if isinstance(rows, dict):
        for name, array in rows.items():
            array[where] = values[name]
    else:
        rows[where] = values


def one_hot(indices: AnyArray, n: int, xp: Namespace) -> AnyArray:
    """Whole numbers [...] as rows [..., n] of zeros and a one: which of a few things is the case."""
    return (xp.arange(n, device=indices.device) == indices[..., None]) * 1.0
