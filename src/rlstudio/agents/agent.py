"""What every agent offers besides `step`: acting on one observation or many, as a user or a service does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Acted, Array
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Dict, Spaces


class Agent:
    """Owns Models, chooses actions, knows no algorithm. Actions are choices from 0 or numbers inside the bounds."""

    fits: tuple[str, ...]  # the Model variants it can act with
    acting: str
    remembers = False

    def __init__(self, model: Any, spaces: Spaces) -> None:
        if model.variant not in self.fits:
            raise Incompatible(
                f"{type(self).__name__} acts with a {' or '.join(self.fits)} Model, not with {model.variant}"
            )
        self.model = model
        self.spaces = spaces

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        """Agents without randomness of their own draw nothing."""
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations: Array, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
        raise NotImplementedError  # abstract: each agent acts its own way

    def act(self, observations: Any) -> np.ndarray:
        """The greedy action for one observation or a batch of them, in the environment's own numbering."""
        space = self.spaces.observation
        if isinstance(space, Dict):
            arrays = {name: np.asarray(observations[name]) for name, _ in space.items()}
            name, entry = space.items()[0]
            single = arrays[name].ndim == len(entry.shape)
            rows: Array = {k: v[None] for k, v in arrays.items()} if single else arrays
        else:
            array = np.asarray(observations)
            single = array.ndim == len(space.shape)
            rows = array[None] if single else array
        actions: np.ndarray = self.step(rows).actions + getattr(self.spaces.action, "start", 0)
        return actions[0] if single else actions

    def with_actions(self, batch: Batch) -> Batch:
        """The batch with greedy actions added."""
        observations = batch.observations
        if isinstance(observations, dict):
            rows: Array = {name: column.numpy(force=True) for name, column in observations.items()}
        else:
            rows = observations.numpy(force=True)
        return batch.with_(actions=torch.from_numpy(self.step(rows).actions.copy()))
