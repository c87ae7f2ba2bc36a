"""What a VectorEnv returns, as rows: arrays of NumPy or tensors of torch, all copies at once.

A wrong shape would broadcast and a wrong kind be cut off without a word, so both are looked at; where one copy is to
blame, the Misfit says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import Any

import numpy as np

from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space
from rlstudio.envs.gym.rows import Misfit, deliverer, is_number, kinds_of

Where = np.ndarray | slice
EVERYWHERE = slice(None)
Read = Callable[[object, Where], None]
"""Write the rows `where` of a value for all copies."""


class RowMisfit(Misfit):
    """Of one copy."""

    def __init__(self, env: int, what: str) -> None:
        super().__init__(what)
        self.env = env


def to_numpy(value: Any, name: str) -> np.ndarray:
    """Also of a tensor, on whichever device it is."""
    if type(value) is np.ndarray:
        return value
    try:
        return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError) as error:
        raise Misfit(f"{name} is not an array: {error}") from error


def reader(space: Space, rows: Array) -> Read:
    """A function that puts observations of all copies into `rows`, or raises Misfit."""
    if not isinstance(space, Dict):
        assert isinstance(rows, np.ndarray)
        return _leaf_reader(space, rows, "observation")
    assert isinstance(rows, dict)
    parts = {name: _leaf_reader(leaf, rows[name], f"observation {name!r}") for name, leaf in space.items()}

    def read(value: object, where: Where) -> None:
        if not isinstance(value, Mapping) or value.keys() != parts.keys():
            got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise Misfit(f"observation is {got}, its space says a dict of {sorted(parts)}")
        for name, part in parts.items():
            part(value[name], where)

    return read


def _leaf_reader(leaf: Leaf, rows: np.ndarray, name: str) -> Read:
    kinds = kinds_of(leaf)

    def read(value: object, where: Where) -> None:
        array = to_numpy(value, name)
        if array.shape != rows.shape:
            raise Misfit(f"{name} has shape {array.shape}, {len(rows)} copies of its space need {rows.shape}")
        if array.dtype.kind not in kinds or (leaf.dtype == "uint8" and array.dtype.itemsize > 1):
            raise Misfit(f"{name} has dtype {array.dtype}, its space needs {leaf.dtype}")
        rows[where] = array[where]
        if not isinstance(leaf, Box):
            _check_choices(leaf, rows, name)

    return read


def _check_choices(leaf: Discrete | MultiDiscrete, rows: np.ndarray, name: str) -> None:
    """A choice that does not exist would crash a network, far from here."""
    counts = np.array((leaf.n,) if isinstance(leaf, Discrete) else leaf.nvec)
    wrong = ((rows < 0) | (rows >= counts)).reshape(len(rows), -1).any(1)
    if wrong.any():
        env = int(wrong.argmax())
        raise RowMisfit(env, f"{name} is {rows[env].tolist()}, its space counts from 0 up to {counts.tolist()}")


def read_column(value: object, rows: np.ndarray, name: str) -> None:
    """Rewards or flags, a number per copy."""
    array = to_numpy(value, name)
    if array.shape != rows.shape:
        raise Misfit(f"{name} has shape {array.shape}, not one number for each of {len(rows)} copies")
    if array.dtype.kind not in ("biuf" if rows.dtype.kind == "f" else "biu"):
        raise Misfit(f"{name} has dtype {array.dtype}, not {rows.dtype}")
    rows[:] = array


def read_final(value: Any, space: Space, rows: Array, ended: np.ndarray, read: Read) -> None:
    """`infos["final_obs"]`: an object per copy, as Gymnasium's own vectors give it, or arrays for all copies."""
    if not (isinstance(value, np.ndarray) and value.dtype == object):
        read(value, ended)
        return
    for env in ended.nonzero()[0].tolist():
        if value[env] is None:
            raise RowMisfit(env, "its episode ended, and infos['final_obs'] has None for it")
        deliverer(space, rows, env)(value[env])


def info_column(infos: Mapping[str, Any], key: str, num_envs: int) -> np.ndarray:
    """The numbers of one key [num_envs], NaN where a copy gave none: `infos["_key"]` says where, if it is there."""
    value = infos.get(key)
    if value is None:
        return np.full(num_envs, nan)
    array = to_numpy(value, f"info {key!r}")
    if array.dtype == object and array.shape == (num_envs,):
        array = np.array([float(number) if is_number(number) else nan for number in array])
    if array.shape != (num_envs,) or array.dtype.kind not in "biuf":
        raise Misfit(
            f"info {key!r} is {array.dtype} of shape {array.shape}, not a number per copy; leave it out of env.infos"
        )
    given = infos.get(f"_{key}")
    return array if given is None else np.where(to_numpy(given, f"info '_{key}'"), array, nan)
