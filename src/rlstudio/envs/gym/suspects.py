"""Which workers gave numbers that are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rlstudio.core.contracts import Step
from rlstudio.envs.gym.rows import leaves
from rlstudio.ops.finite import is_finite


def not_finite(step: Step, spans: Sequence[range], agents: int) -> list[int]:
    """Of the workers with these worlds, by their number; a world has a row for each of its agents."""
    floats = [array for array in _arrays(step) if array.dtype.kind == "f"]
    if all(is_finite(array.reshape(-1)) for array in floats):
        return []
    parts = [slice(own.start * agents, own.stop * agents) for own in spans]
    return [
        number
        for number, part in enumerate(parts)
        if not all(is_finite(np.ascontiguousarray(array[part]).reshape(-1)) for array in floats)
    ]


def _arrays(step: Step) -> Iterator[np.ndarray]:
    yield step.rewards
    yield from leaves(step.observations)
    yield from leaves(step.successors)
