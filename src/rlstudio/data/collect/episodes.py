"""Episode statistics read off finished rollouts: returns and lengths of the episodes that ended in them."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import State


class EpisodeLog:
    """Open episodes carry over from one rollout to the next; they are state, like everything that outlives a step."""

    def __init__(self, num_envs: int) -> None:
        self.open_returns = np.zeros(num_envs)
        self.open_lengths = np.zeros(num_envs, np.int64)
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def add(
        self,
        rewards_TB: np.ndarray,
        terminated_TB: np.ndarray,
        truncated_TB: np.ndarray,
        active_TB: np.ndarray | None = None,
    ) -> None:
        """One pass over the whole block: sums between the ends of episodes, environment by environment."""
        dones_TB = terminated_TB | truncated_TB
        if active_TB is not None:
            self._add_active(rewards_TB, dones_TB, active_TB)
            return
        totals_TB = rewards_TB.cumsum(0, np.float64)
        if dones_TB.any():
            envs, ends = np.nonzero(dones_TB.T)  # by environment, then by time
            first = np.r_[True, envs[1:] != envs[:-1]]
            at_end = totals_TB[ends, envs]
            before = np.where(first, -self.open_returns[envs], np.r_[0.0, at_end[:-1]])
            started = np.where(first, -1 - self.open_lengths[envs], np.r_[0, ends[:-1]])
            order = np.lexsort((envs, ends))  # reported in the order in which they ended
            self.returns.extend((at_end - before)[order].tolist())
            self.lengths.extend((ends - started)[order].tolist())
            last = np.r_[first[1:], True]
            self.open_returns[envs[last]] = -at_end[last]
            self.open_lengths[envs[last]] = -(ends[last] + 1)
        self.open_returns += totals_TB[-1]
        self.open_lengths += len(rewards_TB)

    def _add_active(self, rewards_TB: np.ndarray, dones_TB: np.ndarray, active_TB: np.ndarray) -> None:
        """Steps count where an agent acts, rewards also while it waits; of one that is gone no episode ends again."""
        for rewards, dones, active in zip(rewards_TB, dones_TB, active_TB, strict=True):
            self.open_lengths += active
            self.open_returns += np.where(self.open_lengths > 0, rewards, 0.0)
            ended = dones & (self.open_lengths > 0)
            self.returns.extend(self.open_returns[ended].tolist())
            self.lengths.extend(self.open_lengths[ended].tolist())
            self.forget(ended)

    def forget(self, envs: np.ndarray) -> None:
        """The open episodes of these environments will never end."""
        self.open_returns[envs] = 0.0
        self.open_lengths[envs] = 0

    def take(self) -> tuple[list[float], list[int]]:
        """Episodes finished since the last call."""
        taken = self.returns, self.lengths
        self.returns, self.lengths = [], []
        return taken

    def state_dict(self) -> State:
        return {
            "open_returns": self.open_returns,
            "open_lengths": self.open_lengths,
            "returns": np.asarray(self.returns, np.float64),
            "lengths": np.asarray(self.lengths, np.int64),
        }

    def load_state_dict(self, state: State) -> None:
        self.open_returns[:] = state["open_returns"]
        self.open_lengths[:] = state["open_lengths"]
        self.returns = np.asarray(state["returns"]).tolist()
        self.lengths = np.asarray(state["lengths"]).tolist()
