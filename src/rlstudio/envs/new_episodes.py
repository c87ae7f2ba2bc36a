"""Vectors that cannot be put back into the middle of an episode: at a position they begin new ones."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import OtherEnvironments


def new_episodes(position: State, kind: str, id: str, num_envs: int, what: str) -> tuple[np.ndarray, list[int]]:
    """The episodes to begin, one after those of the position, and the envs that were in the middle of one. `kind` and
    `id` are those that a position must have; `what` names the vector in a refusal."""
    if position.get("kind") != kind or position.get("id") != id:
        wanted = position.get("id", position.get("world", position.get("kind")))
        raise OtherEnvironments(f"a position of {wanted} does not fit {what} {id}")
    if len(position["episodes"]) != num_envs:
        raise OtherEnvironments(f"a position of {len(position['episodes'])} envs does not fit {num_envs}")
    return np.asarray(position["episodes"]) + 1, np.flatnonzero(position["elapsed"]).tolist()
