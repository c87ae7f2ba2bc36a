"""Inspection: what every finished block goes through before learning sees it, and what an epoch reports of it."""

from __future__ import annotations

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State, Tally
from rlstudio.core.spaces import Spaces
from rlstudio.data.collect.episodes import EpisodeLog
from rlstudio.data.collect.guard import RowGuard
from rlstudio.data.collect.packer import Packer
from rlstudio.data.collect.range_watch import RangeWatch


class Inspection:
    """Bad rows lose their weight, observations far outside their space are noted, episodes that ended are recorded."""

    def __init__(self, spaces: Spaces, num_envs: int, guard: RowGuard) -> None:
        self.guard = guard
        self.episodes = EpisodeLog(num_envs, spaces.infos)
        self._spaces = spaces
        self._ranges = RangeWatch(spaces.observation)
        self._outside: str | None = None

    def __call__(self, packer: Packer) -> Batch:
        """The block as learning may see it."""
        rollout = self.guard(packer.batch(), self._spaces.action)
        self._outside = self._ranges.look(packer.successors) or self._outside
        # After the guard: a reward that is no number would spoil the sums of every later episode in the block.
        self.episodes.add(packer.rewards, packer.terminated, packer.truncated, packer.active, packer.infos)
        return rollout

    def take(self, restart_reasons: list[str] | None) -> Tally:
        """What there is to report since the last call; the reasons are taken too."""
        restarts = None if restart_reasons is None else list(restart_reasons)
        if restart_reasons:
            restart_reasons.clear()
        outside, self._outside = self._outside, None
        returns, lengths, infos = self.episodes.take()
        return Tally(returns, lengths, self.guard.bad_rows, dict(self.guard.counts), infos, restarts, outside)

    def forget(self, envs: np.ndarray) -> None:
        """The open episodes of these environments will never end."""
        self.episodes.forget(envs)

    def state_dict(self) -> State:
        return {"episodes": self.episodes.state_dict(), "guard": self.guard.state_dict()}

    def load_state_dict(self, state: State) -> None:
        self.episodes.load_state_dict(state["episodes"])
        self.guard.load_state_dict(state["guard"])
