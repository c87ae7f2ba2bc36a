"""The numbers of stored rows that sources are compared by: observations of floats, actions, rewards.

Of images, and of observations that are choices, only rewards and actions are looked at.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.spaces import Discrete, Spaces
from rlstudio.data.replay.frames import FrameStore
from rlstudio.data.replay.rows import RowStore
from rlstudio.data.replay.strangeness import Rows

MOST = 32
"""Numbers of an observation."""

MOST_CHOICES = 8  # that become a number each; of more, the choice is one number
MARKS = (1.0, 0.7310585786, 0.5772156649, 0.3678794412)


class RowNumbers:
    def __init__(self, store: RowStore, spaces: Spaces) -> None:
        self._store = store
        names = [name for name in store.columns if name.split(".")[0] == "observations"]
        is_plain = not isinstance(store, FrameStore)
        self._fields = [name for name in names if is_plain and store.columns[name].dtype.kind == "f"]
        self._choices = spaces.action.n if isinstance(spaces.action, Discrete) else None

    @property
    def has_observations(self) -> bool:
        return bool(self._fields)

    def of(self, numbers: np.ndarray) -> Rows:
        """x: observation and action; y: reward, change of the observation, observation."""
        slots = numbers % self._store.slots
        now = self._flat(slots, "observations")
        change = self._flat(slots, "next_observations") - now
        rewards = self._store.columns["rewards"][slots].astype(np.float64)[:, None]
        return Rows(np.concatenate([now, self._actions(slots)], 1), np.concatenate([rewards, change, now], 1))

    def name(self, index: int) -> str:
        """Of a number of y."""
        return "reward" if index == 0 else "observation"

    def bad_share(self, numbers: np.ndarray) -> float:
        return float((self._store.columns["weights"][numbers % self._store.slots] == 0).mean())

    def reward_size(self, numbers: np.ndarray) -> float:
        """The 95th percentile of their size."""
        return float(np.quantile(np.abs(self._store.columns["rewards"][numbers % self._store.slots]), 0.95))

    def fingerprint(self, numbers: np.ndarray) -> np.ndarray:
        """A number of each row that equal rows share."""
        slots = numbers % self._store.slots
        flat = self._flat(slots, "observations")[:, : len(MARKS)]
        total = np.zeros(len(slots))
        for column, mark in zip(flat.T, MARKS, strict=False):  # not by a product: its last bits depend on the place
            total += column * mark
        return total

    def _flat(self, slots: np.ndarray, kind: str) -> np.ndarray:
        parts = [
            self._store.columns[kind + name.removeprefix("observations")][slots].reshape(len(slots), -1)
            for name in self._fields
        ]
        return np.concatenate([np.zeros((len(slots), 0)), *parts], 1)[:, :MOST]

    def _actions(self, slots: np.ndarray) -> np.ndarray:
        actions = self._store.columns["actions"][slots]
        if self._choices is not None and self._choices <= MOST_CHOICES:
            return np.asarray(actions[:, None] == np.arange(self._choices - 1), np.float64)
        return np.asarray(actions.reshape(len(slots), -1)[:, :MOST], np.float64)
