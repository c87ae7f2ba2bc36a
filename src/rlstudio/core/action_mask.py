"""Action masks: which choices are allowed, as an entry `action_mask` of a Dict observation.

One number per choice, 0 for a forbidden one; for MultiDiscrete the parts one after the other. A mask that allows
nothing (an episode's last observation often has one, and rows that do not count are zero) forbids nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, overload

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Spaces, describe

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rlstudio.core.contracts import Array
    from rlstudio.core.model.layers import Observations

ACTION_MASK = "action_mask"

FORBIDDEN = -1e8
"""Logit or value of a forbidden choice: its probability is exactly zero, and nothing becomes infinite or NaN."""


class ActionMask:
    """Reads the mask of observations, NumPy arrays and tensors alike."""

    def __init__(self, nvec: tuple[int, ...]) -> None:
        ends = [sum(nvec[: i + 1]) for i in range(len(nvec))]
        self.parts = tuple(slice(end - n, end) for n, end in zip(nvec, ends, strict=True))

    @classmethod
    def of(cls, spaces: Spaces) -> ActionMask | None:
        """The mask of an environment, or None if its observations have none. A mask that does not fit the actions is
        refused."""
        entry = dict(spaces.observation.items()).get(ACTION_MASK) if isinstance(spaces.observation, Dict) else None
        if entry is None:
            return None
        nvec = choices(spaces.action)
        if nvec is None:
            raise Incompatible(
                f"observation {ACTION_MASK!r} forbids choices, but the actions are {describe(spaces.action)};"
                " rename that entry"
            )
        if entry.shape != (sum(nvec),):
            raise Incompatible(
                f"observation {ACTION_MASK!r} is {describe(entry)}, but {describe(spaces.action)} needs a mask of"
                f" {sum(nvec)} numbers, one per choice; give it that shape"
            )
        return cls(nvec)

    @overload
    def allowed(self, observations: Array) -> np.ndarray: ...

    @overload
    def allowed(self, observations: Observations) -> Tensor: ...

    def allowed(self, observations: Array | Observations) -> np.ndarray | Tensor:
        """True for each choice that is allowed, [..., choices]; every part has at least one."""
        entries = cast("dict[str, Tensor]", observations)  # arrays have the same operations
        allowed = entries[ACTION_MASK] != 0
        for part in self.parts:
            view = allowed[..., part]
            view |= ~view.any(-1)[..., None]
        return allowed

    def is_empty(self, mask: np.ndarray) -> bool:
        """Whether one observation's mask leaves some part without a choice."""
        return any(not mask[part].any() for part in self.parts)


def choices(space: Space) -> tuple[int, ...] | None:
    """How many choices each part of an action has; None for actions that are numbers."""
    match space:
        case Discrete():
            return (space.n,)
        case MultiDiscrete():
            return space.nvec
        case Box() | Dict():
            return None


def features(space: Space) -> Space:
    """The part of an observation that a network reads: all of it except the mask."""
    if isinstance(space, Dict) and any(name == ACTION_MASK for name, _ in space.items()):
        return Dict(tuple((name, entry) for name, entry in space.items() if name != ACTION_MASK))
    return space
