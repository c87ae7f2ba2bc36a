"""An episode of a dataset, and whether it can be learned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rlstudio.core.contracts import Array
from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Dict, Discrete, MultiDiscrete, Space, Spaces


@dataclass(frozen=True)
class RecordedEpisode:
    """One episode as an agent sees it: T steps, T + 1 observations (a dict of arrays for a Dict)."""

    observations: Array
    actions: np.ndarray  # choices from 0
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    seed: int | None = None
    infos: dict[str, np.ndarray] = field(default_factory=dict)  # by the chosen keys, NaN in steps that gave none


def check_episode(episode: RecordedEpisode, spaces: Spaces, label: str) -> None:
    """Refuse what cannot be learned from: updates would be skipped without end, and nothing would say for which row."""
    remedy = "record it again, or write it anew without that episode"
    for what, rows, space, count in _columns(episode, spaces):
        if len(rows) != count:
            raise UserError(f"{label}: {len(rows)} rows of {what} where {count} belong; {remedy}")
        flat = rows.reshape(count, -1)
        bad = _unusable(flat, space)
        if bad.any():
            step, number = np.argwhere(bad)[0]
            reason = "not finite" if flat.dtype.kind == "f" else "not one of its choices"
            raise UserError(f"{label}, step {step}: {what} has {flat[step, number]}, which is {reason}; {remedy}")


def _columns(episode: RecordedEpisode, spaces: Spaces) -> Iterator[tuple[str, np.ndarray, Space | None, int]]:
    """What it is, its rows, their space where they have one, how many there must be."""
    steps, observations = len(episode.rewards), episode.observations
    if isinstance(spaces.observation, Dict):
        for name, entry in spaces.observation.items():
            yield f"observation {name!r}", observations[name], entry, steps + 1
    else:
        assert isinstance(observations, np.ndarray)
        yield "observation", observations, spaces.observation, steps + 1
    yield "action", episode.actions, spaces.action, steps
    yield "reward", episode.rewards, None, steps
    yield "termination", episode.terminated, None, steps
    yield "truncation", episode.truncated, None, steps


def _unusable(rows: np.ndarray, space: Space | None) -> np.ndarray:
    """Which numbers are not finite and which choices are not in the space; bytes are always fine."""
    if isinstance(space, Discrete | MultiDiscrete):
        counts = space.nvec if isinstance(space, MultiDiscrete) else (space.n,)
        return np.asarray((rows < 0) | (rows >= np.asarray(counts)))
    return ~np.isfinite(rows) if rows.dtype.kind == "f" else np.zeros((1, 1), bool)
