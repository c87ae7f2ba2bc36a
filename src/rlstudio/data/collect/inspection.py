"""Inspection: what every finished block goes through before learning sees it, and what an epoch reports of it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import SeatsLearner, State, Tally
from rlstudio.core.spaces import Spaces
from rlstudio.data.checks.flawed_rows import FlawedRow, InspectedEnvs, describe
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.checks.range_watch import RangeWatch
from rlstudio.data.collect.episodes import DrawLog, EpisodeLog
from rlstudio.data.collect.packer import Packer
from rlstudio.envs.params.episodes import episode_params_of


class Inspection:
    """Bad rows lose their weight, observations far outside their space are noted, episodes that ended are recorded.

    `envs` are the numbers of what is inspected in the whole run, `spaces` what it shows and takes: all of the
    environments, or the columns of some of their agents.
    """

    def __init__(
        self,
        env: InspectedEnvs,
        guard: RowGuard,
        envs: np.ndarray,
        spaces: Spaces,
        columns: Collection[int] | None = None,
    ) -> None:
        """`columns`: of the environments, where others inspect the rest of them."""
        self.guard = guard
        self.episodes = EpisodeLog(len(envs), spaces.infos)
        self._params = episode_params_of(env)
        self._columns = None if columns is None else frozenset(columns)
        self._draws = None if self._params is None else DrawLog(self._params.values)
        self._env = env
        self._envs = envs
        self._spaces = spaces
        self._ranges = RangeWatch(spaces.observation)
        self._outside: str | None = None
        self._bad_row: str | None = None  # the first one since the last report

    def __call__(self, packer: Packer) -> Batch:
        """The block as learning may see it."""
        rollout = self.guard(packer.batch(), self._spaces.action)
        if outside := self._ranges.look(packer.successors):
            self._outside = self._describe(FlawedRow(*outside, rollout.actions[outside[:2]].tolist()), packer)
        columns = packer.terminated, packer.truncated, packer.active, packer.infos
        if self.guard.rewards is None:
            self.episodes.add(packer.rewards, *columns)
        else:
            # None where only agents that are gone have bad rows.
            if self.guard.first is not None and self._bad_row is None:
                self._bad_row = self._describe(self.guard.first, packer)
            self.episodes.add_flawed(self.guard.rewards, *columns)
        if self._params is not None and self._draws is not None:
            self._draws.add(self._params.take(self._columns))
        return rollout

    @property
    def sees_like_envs(self) -> bool:
        """Whether they all are the same world: no parameters are drawn for each, nobody else plays in them."""
        return self._params is None and not isinstance(self._env, SeatsLearner)

    def _describe(self, row: FlawedRow, packer: Packer) -> str:
        """Asked for before the block is added to the episodes, whose open lengths are those at its beginning."""
        open_length = int(self.episodes.open_lengths[row.env])
        dones_TB = packer.terminated | packer.truncated
        return describe(row, self._env, int(self._envs[row.env]), dones_TB, open_length)

    def take(self) -> Tally:
        """What there is to report since the last call."""
        reasons = self._env.restart_reasons
        restarts = None if reasons is None else list(reasons)
        if reasons:
            reasons.clear()
        outside, self._outside = self._outside, None
        bad_row, self._bad_row = self._bad_row, None
        returns, lengths, infos = self.episodes.take()
        metrics = self._env.close_epoch() if isinstance(self._env, SeatsLearner) else None
        draws = None if self._draws is None else self._draws.take()
        bad = self.guard.bad_rows, dict(self.guard.counts)
        return Tally(returns, lengths, *bad, infos, restarts, outside, bad_row, metrics, draws)

    def forget(self, envs: np.ndarray) -> None:
        """The open episodes of these environments will never end."""
        self.episodes.forget(envs)

    def state_dict(self) -> State:
        return {
            "episodes": self.episodes.state_dict(),
            "guard": self.guard.state_dict(),
            **({} if self._bad_row is None else {"bad_row": self._bad_row}),
            **({} if self._draws is None else {"draws": self._draws.state_dict()}),
        }

    def load_state_dict(self, state: State) -> None:
        self.episodes.load_state_dict(state["episodes"])
        self.guard.load_state_dict(state["guard"])
        self._bad_row = state.get("bad_row")
        if self._draws is not None:
            self._draws.load_state_dict(state.get("draws"), len(self.episodes.returns))
