"""Episode statistics read off finished rollouts: returns and lengths of the episodes that ended in them, and what each
gave last for the chosen keys of its info."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from types import MappingProxyType

import numpy as np

from rlstudio.core.contracts import EpisodeDraws, State

NO_INFOS: Mapping[str, np.ndarray] = MappingProxyType({})


class LastNumbers:
    """The newest number of each open episode for one key of its info (NaN: none yet), and of those that ended."""

    def __init__(self, num_envs: int) -> None:
        self.open = np.full(num_envs, np.nan, np.float32)
        self.ended: list[float] = []

    def add(self, values_TB: np.ndarray, dones_TB: np.ndarray) -> None:
        """A whole block; what counts for an episode are only the rows of its own."""
        rows_TB = np.concatenate([self.open[None], values_TB])  # row 0: what the open episodes gave before
        number = np.arange(1, len(rows_TB))[:, None]
        newest_TB = np.maximum.accumulate(np.where(np.isnan(values_TB), 0, number))
        after_TB = np.maximum.accumulate(np.where(dones_TB, number + 1, 0))  # the first row of the episode that follows
        start_TB = np.concatenate([np.zeros_like(after_TB[:1]), after_TB[:-1]])
        given_TB = np.take_along_axis(rows_TB, newest_TB, 0)
        self.ended.extend(np.where(newest_TB >= start_TB, given_TB, np.nan)[dones_TB].tolist())
        self.open = np.where(newest_TB[-1] >= after_TB[-1], given_TB[-1], np.nan)

    def add_row(self, values: np.ndarray, present: np.ndarray, ended: np.ndarray) -> None:
        """One step, of the agents that are in an episode."""
        self.open = np.where(present & ~np.isnan(values), values, self.open)
        self.ended.extend(self.open[ended].tolist())

    def forget(self, envs: np.ndarray) -> None:
        self.open[envs] = np.nan

    def state_dict(self) -> State:
        return {"open": self.open, "ended": np.asarray(self.ended, np.float64)}

    def load_state_dict(self, state: State) -> None:
        self.open[:] = state["open"]
        self.ended = np.asarray(state["ended"]).tolist()


class EpisodeLog:
    """Open episodes carry over from one rollout to the next; they are state, like everything that outlives a step."""

    def __init__(self, num_envs: int, infos: tuple[str, ...] = ()) -> None:
        self.open_returns = np.zeros(num_envs)
        self.open_lengths = np.zeros(num_envs, np.int64)
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.infos = {key: LastNumbers(num_envs) for key in infos}

    def add(
        self,
        rewards_TB: np.ndarray,
        terminated_TB: np.ndarray,
        truncated_TB: np.ndarray,
        active_TB: np.ndarray | None = None,
        infos_TB: Mapping[str, np.ndarray] = NO_INFOS,
    ) -> None:
        """One pass over the whole block: sums between the ends of episodes, environment by environment."""
        dones_TB = terminated_TB | truncated_TB
        if active_TB is not None:
            self._add_active(rewards_TB, dones_TB, active_TB, infos_TB)
            return
        for key, numbers in self.infos.items():
            numbers.add(infos_TB[key], dones_TB)
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

    def add_flawed(
        self,
        rewards_TB: np.ndarray,
        terminated_TB: np.ndarray,
        truncated_TB: np.ndarray,
        active_TB: np.ndarray | None = None,
        infos_TB: Mapping[str, np.ndarray] = NO_INFOS,
    ) -> None:
        """The same for a block with rewards that cannot be used, given as NaN: an episode with one of them has the
        return NaN, and the others keep theirs."""
        dones_TB = terminated_TB | truncated_TB
        self._add_active(rewards_TB, dones_TB, np.ones_like(dones_TB) if active_TB is None else active_TB, infos_TB)

    def _add_active(
        self,
        rewards_TB: np.ndarray,
        dones_TB: np.ndarray,
        active_TB: np.ndarray,
        infos_TB: Mapping[str, np.ndarray],
    ) -> None:
        """Steps count where an agent acts, rewards and infos also while it waits; of one that is gone no episode ends
        again."""
        for t, (rewards, dones, active) in enumerate(zip(rewards_TB, dones_TB, active_TB, strict=True)):
            self.open_lengths += active
            present = self.open_lengths > 0
            self.open_returns += np.where(present, rewards, 0.0)
            ended = dones & present
            for key, numbers in self.infos.items():
                numbers.add_row(infos_TB[key][t], present, ended)
            self.returns.extend(self.open_returns[ended].tolist())
            self.lengths.extend(self.open_lengths[ended].tolist())
            self.forget(ended)

    def forget(self, envs: np.ndarray) -> None:
        """The open episodes of these environments will never end."""
        self.open_returns[envs] = 0.0
        self.open_lengths[envs] = 0
        for numbers in self.infos.values():
            numbers.forget(envs)

    def take(self) -> tuple[list[float], list[int], dict[str, list[float]]]:
        """Episodes finished since the last call."""
        taken = self.returns, self.lengths, {key: numbers.ended for key, numbers in self.infos.items()}
        self.returns, self.lengths = [], []
        for numbers in self.infos.values():
            numbers.ended = []
        return taken

    def state_dict(self) -> State:
        infos = {key: numbers.state_dict() for key, numbers in self.infos.items()}
        return {
            "open_returns": self.open_returns,
            "open_lengths": self.open_lengths,
            "returns": np.asarray(self.returns, np.float64),
            "lengths": np.asarray(self.lengths, np.int64),
            **({"infos": infos} if infos else {}),
        }

    def load_state_dict(self, state: State) -> None:
        self.open_returns[:] = state["open_returns"]
        self.open_lengths[:] = state["open_lengths"]
        self.returns = np.asarray(state["returns"]).tolist()
        self.lengths = np.asarray(state["lengths"]).tolist()
        for key, numbers in self.infos.items():
            numbers.load_state_dict(state.get("infos", {}).get(key) or self._not_given())

    def _not_given(self) -> State:
        """Of a key that is kept only since this checkpoint, as a fork may: its episodes gave no number so far."""
        return {"open": np.nan, "ended": [nan] * len(self.returns)}


class DrawLog:
    """What was drawn for the parameters of the episodes that EpisodeLog has recorded, in the same order."""

    def __init__(self, names: Iterable[str]) -> None:
        self._draws = EpisodeDraws([], [], {name: [] for name in names})

    def add(self, draws: EpisodeDraws) -> None:
        self._draws.versions.extend(draws.versions)
        self._draws.components.extend(draws.components)
        for name, values in draws.values.items():
            self._draws.values[name].extend(values)

    def take(self) -> EpisodeDraws:
        taken, self._draws = self._draws, EpisodeDraws([], [], {name: [] for name in self._draws.values})
        return taken

    def state_dict(self) -> State:
        return {
            "versions": self._draws.versions,
            "components": self._draws.components,
            "names": list(self._draws.values),
            "values": np.array(list(self._draws.values.values()), np.float64),
        }

    def load_state_dict(self, state: State | None, episodes: int) -> None:
        """Of so many recorded episodes; of a checkpoint from before a parameter was drawn its values are not known."""
        state = state or {"versions": [-1] * episodes, "components": [-1] * episodes, "names": [], "values": []}
        known = dict(zip(state["names"], state["values"], strict=True))
        values = {name: [float(x) for x in known.get(name, [nan] * episodes)] for name in self._draws.values}
        self._draws = EpisodeDraws(list(state["versions"]), list(state["components"]), values)
