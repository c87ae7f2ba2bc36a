"""What it takes to find every env again: its episode, the actions since that episode began, a digest of what it showed.

Plain Gymnasium envs have no state that can be read, but an episode is its seed and its actions. One row of actions is
written per vector step; the rows before the oldest open episode are dropped when the log is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import OtherEnvironments
from rlstudio.envs.gym.env_block import digest_of
from rlstudio.envs.gym.rows import Buffers, leaves, row_views

FIRST_CAPACITY = 256
FIRST_STEPS = 256


class FirstSteps:
    """Of env 0 since its first reset: its actions, and a checksum of the reset and of what each action gave: the
    observation to act on next, the reward, whether the episode ended."""

    def __init__(self, checksums: Sequence[int] = (), actions: Sequence[np.ndarray] = ()) -> None:
        self.checksums, self.actions = list(checksums), list(actions)

    def add(self, action: np.ndarray, digest: int, rows: Buffers) -> bool:
        """Whether there is room for more."""
        self.actions.append(action.copy())
        result = np.array([rows.rewards[0], rows.terminated[0], rows.truncated[0]], np.float64)
        self.checksums.append(crc32(result.data, digest))
        return len(self.actions) < FIRST_STEPS


class Journal:
    def __init__(self, rows: Buffers, first_env: int = 0) -> None:
        self._rows, self._first = rows, first_env
        actions = leaves(rows.actions)[0]
        self.num_envs = len(rows.rewards)
        self.episodes = np.zeros(self.num_envs, np.int64)
        self.digests: list[int] = [0] * self.num_envs
        self._views = [list(row_views(rows.observations, index)) for index in range(self.num_envs)]
        self._columns = [[view.data for view in column] for column in zip(*self._views, strict=True)]
        self._log = np.zeros((FIRST_CAPACITY, *actions.shape), actions.dtype)
        self._starts = np.zeros(self.num_envs, np.int64)  # the log row of each open episode's first action
        self._now = 0
        self.restarted: list[int] = []  # envs whose episode could not be found again since the last `adopt`
        self.first_steps = FirstSteps()
        self._is_noting = False

    def restart(self) -> None:
        """All envs show the first observation of their episode 0."""
        self.episodes[:] = 0
        self._starts[:] = 0
        self._now = 0
        self.digests = [digest_of(views) for views in self._views]
        self.restarted = []
        self.first_steps, self._is_noting = FirstSteps(self.digests[:1]), True

    def record(self, actions: np.ndarray, ended: np.ndarray | None) -> None:
        """A step was taken and the rows show its result."""
        if self._now == len(self._log):
            self._make_room()
        self._log[self._now] = actions
        self._now += 1
        if ended is not None:
            for index in ended.nonzero()[0].tolist():
                self.digests[index] = 0
            self.episodes[ended] += 1
            self._starts[ended] = self._now
        for column in self._columns:
            self.digests = [crc32(data, before) for data, before in zip(column, self.digests, strict=True)]
        if self._is_noting:
            self._is_noting = self.first_steps.add(self._log[self._now - 1, 0], self.digests[0], self._rows)

    def stop_noting(self) -> None:
        """What follows cannot be played again from the start: parameters are drawn from something else."""
        self._is_noting = False

    def take_first_steps(self) -> FirstSteps | None:
        """Once, to be replayed: None without a step, and after a position was taken over, which was replayed then."""
        steps = self.first_steps
        if not steps.actions:
            return None
        self.first_steps, self._is_noting = FirstSteps(), False
        return steps

    def actions_of(self, index: int) -> np.ndarray:
        """The actions of this env's open episode so far."""
        return self._log[self._starts[index] : self._now, index]

    def elapsed(self, index: int) -> int:
        return self._now - int(self._starts[index])

    def position(self) -> State:
        histories = [self.actions_of(index) for index in range(self.num_envs)]
        return {
            "kind": "replay",
            "episodes": self.episodes.copy(),
            "lengths": np.array([len(history) for history in histories], np.int64),
            "actions": np.concatenate(histories),
            "digests": np.array(self.digests, np.int64),
        }

    def adopt(self, position: State) -> None:
        """Take over a position; the envs themselves are placed by the caller."""
        if position.get("kind") != "replay":
            raise OtherEnvironments(
                f"a position of {position.get('world', position.get('kind'))} does not fit Gymnasium envs"
            )
        self.restarted = []
        self.first_steps, self._is_noting = FirstSteps(), False
        lengths = np.asarray(position["lengths"])
        if len(lengths) != self.num_envs:
            raise OtherEnvironments(f"a position of {len(lengths)} envs does not fit {self.num_envs}")
        self._now = int(lengths.max())
        if self._now >= len(self._log):
            self._log = np.zeros((2 * self._now, *self._log.shape[1:]), self._log.dtype)
        self.episodes[:] = position["episodes"]
        self._starts[:] = self._now - lengths
        self.digests = [int(digest) for digest in position["digests"]]
        histories: Sequence[np.ndarray] = np.split(np.asarray(position["actions"]), np.cumsum(lengths)[:-1])
        for index, history in enumerate(histories):
            self._log[self._starts[index] : self._now, index] = history

    def settle(self, index: int, digest: int | None) -> str | None:
        """After a replay: None where it showed the same, else why this env cannot be promised to repeat itself."""
        if digest == self.digests[index]:
            return None
        if digest is None:  # it stands at the start of its episode now
            self._starts[index] = self._now
            self.restarted.append(index)
            reason = "its episode ended early when its actions were replayed"
        else:
            reason = "it showed other observations when its actions were replayed"
        self.digests[index] = digest_of(self._views[index]) if digest is None else digest
        return f"env {self._first + index}, episode {self.episodes[index]}: {reason}"

    def _make_room(self) -> None:
        """Drop rows before the oldest open episode; double when that frees less than half."""
        oldest = int(self._starts.min())
        kept = self._log[oldest : self._now]
        capacity = len(self._log) * (1 if len(kept) <= len(self._log) // 2 else 2)
        log = np.zeros((capacity, *self._log.shape[1:]), self._log.dtype)
        log[: len(kept)] = kept
        self._log = log
        self._starts -= oldest
        self._now -= oldest
