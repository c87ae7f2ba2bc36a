"""The types that contracts use: arrays, states, metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

# As text: commands that only look at runs read this module too, and need neither NumPy nor torch.
Array: TypeAlias = "np.ndarray | dict[str, np.ndarray]"
"""Observations or actions of all copies at once; a dict if the space is a Dict."""

Carried: TypeAlias = "dict[str, np.ndarray]"
"""What an agent remembers: arrays with a row per environment, zero where an episode starts."""

State = dict[str, Any]
"""What a checkpoint can hold: nested dicts and lists of tensors, NumPy arrays, `Segment`s and plain JSON values."""

Metrics = dict[str, "Tensor"]
"""What one learning step measured, by name: tensors on the device, so that nothing waits for the device."""


@dataclass(frozen=True)
class Segment:
    """A block of rows that never changes once it has its name; a checkpoint writes it once and refers to it after."""

    name: str
    columns: Callable[[], dict[str, np.ndarray]]


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint saves and puts back: its state as tensors, arrays and plain JSON values."""

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...
