"""What one plain env hands over, checked and copied into its row.

Every step of every env passes here, so the usual case is two comparisons and one copy. Anything else is looked at
slowly and named: a wrong shape would broadcast and a wrong kind would be cut off without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Array
from rlstudio.core.spaces import Box, Dict, Leaf, Space
from rlstudio.envs.buffers import row_views

Deliver = Callable[[Any], None]


class Misfit(Exception):
    """The env broke its own spaces; the message says how."""


def deliverer(space: Space, rows: Array, index: int, mask: ActionMask | None = None) -> Deliver:
    """A function that puts an observation of env `index` into `rows`, or raises Misfit; with the rule of its action
    mask, also where an observation to act on allows no action."""
    views = list(row_views(rows, index))
    if isinstance(space, Dict):
        return _dict_deliverer(space, views, mask)
    return _leaf_deliverer(space, views[0], "observation")


def _leaf_deliverer(leaf: Leaf, view: np.ndarray, name: str) -> Deliver:
    shape = leaf.shape
    kinds = "biu" if not isinstance(leaf, Box) else "bu" if leaf.dtype == "uint8" else "biuf"
    usual = view.dtype  # replaced by what the env really hands over, once that is known to be a fitting kind

    def deliver(value: Any) -> None:
        nonlocal usual
        if type(value) is not np.ndarray:
            value = _array(value, name)
        if value.shape != shape:
            raise Misfit(f"{name} has shape {value.shape}, its space says {shape}")
        if value.dtype is not usual:
            if value.dtype.kind not in kinds or (leaf.dtype == "uint8" and value.dtype.itemsize > 1):
                raise Misfit(f"{name} has dtype {value.dtype}, its space needs {leaf.dtype}")
            usual = value.dtype
        view[...] = value

    return deliver


def _dict_deliverer(space: Dict, views: list[np.ndarray], mask: ActionMask | None) -> Deliver:
    parts = [
        (name, _leaf_deliverer(leaf, view, f"observation {name!r}"))
        for (name, leaf), view in zip(space.items(), views, strict=True)
    ]
    names = {name for name, _ in parts}

    def deliver(value: Any) -> None:
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


def _array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise Misfit(f"{name} is not an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise Misfit(f"{name} is {type(value).__name__}, not numbers")
    return array


def plain(value: Any) -> Any:
    """An info as JSON values: what cannot travel between processes or sit in a file is left out."""
    if isinstance(value, dict):
        return {str(key): inner for key, entry in value.items() if (inner := plain(entry)) is not None}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.dtype.kind in "biufU" else None
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool) else None
