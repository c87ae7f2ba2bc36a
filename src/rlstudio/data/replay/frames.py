"""FrameStore: transitions whose observations are stacks of successive frames, with each frame kept once.

A plain row of 4 stacked frames and their successor holds 8 of them, of which 7 stand in neighbouring rows too. Here row
n keeps the newest frame of its observation; the older ones are those of the same environment's rows before it, back to
the start of the episode, and the successor's newest frame is the next row's. Only where an episode ends the successor
has a frame that no row shows: it goes into a ring of last frames. The ring of rows is longer than the buffer's capacity
by what the oldest row's stack reaches back.

What comes in is compared with what would come out. A row that could not be rebuilt (its environment went on somewhere
else, say after a crash) gets weight zero: it is kept, but never learned from.
"""

from __future__ import annotations

import numpy as np
import torch

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import State
from rlstudio.core.errors import EnvFault
from rlstudio.core.spaces import Box, Spaces
from rlstudio.data.replay.rows import RowStore, into_ring, outcome_fields


def stores_frames(spaces: Spaces) -> bool:
    """Whether observations are stacks of byte images that can be taken apart."""
    space = spaces.observation
    return isinstance(space, Box) and space.stack is not None and space.dtype == "uint8"


def frame_dtype(spaces: Spaces) -> np.dtype:
    """A record without its frame: `age` counts earlier frames of the episode, `last` numbers the last frame, if any."""
    return np.dtype([*outcome_fields(spaces), ("last", "i8"), ("age", "u1")], align=True)


class FrameStore(RowStore):
    """`capacity` rows of `num_envs` environments. Row n's predecessor in its environment is row n - num_envs."""

    def __init__(self, spaces: Spaces, capacity: int, num_envs: int) -> None:
        space = spaces.observation
        assert isinstance(space, Box)
        assert space.stack is not None
        self.size, self.padded_with_zeros = space.stack.size, space.stack.padding == "zero"
        super().__init__(frame_dtype(spaces), capacity + (self.size - 1) * num_envs, num_envs)
        frame = space.shape[1:]
        self.frames = np.zeros((self.slots, *frame), np.uint8)
        self.lasts = np.zeros((self.slots, *frame), np.uint8)
        self.pending = np.zeros((num_envs, *frame), np.uint8)  # newest frames of the newest rows' successors
        self.ages = np.zeros(num_envs, np.uint8)  # of the rows to come
        self.newest = np.arange(num_envs) - num_envs  # number of each environment's newest row; negative: none
        self.ended = 0  # last frames ever stored
        self._lost = 0  # rows in a row that could not be rebuilt

    def put(self, numbers_TB: np.ndarray, rollout: Batch, consecutive: bool = False) -> None:
        flat, envs = rollout.flatten(), numbers_TB[0] % self.num_envs
        observations, successors = flat.observations.numpy(), flat.next_observations.numpy()
        dones = flat.dones.numpy()
        self._join(envs, observations[: len(envs), -1])
        ages, lasts = self._ages(envs, dones), self.ended + np.cumsum(dones) - 1
        extra = {"age": torch.from_numpy(ages), "last": torch.from_numpy(lasts)}
        super().put(numbers_TB, flat.with_(**extra), consecutive)
        into_ring(self.frames, self.place(numbers_TB, consecutive), observations[:, -1])
        into_ring(self.lasts, self.ended, successors[dones, -1])
        self.ended += int(dones.sum())
        self.pending[envs] = successors[-len(envs) :, -1]
        self.newest[envs] = numbers_TB[-1]
        self._check(numbers_TB.ravel(), observations, successors)

    def _ages(self, envs: np.ndarray, dones: np.ndarray) -> np.ndarray:
        """How many earlier frames of its episode each row has, as far as a stack reaches."""
        ages = np.empty((len(dones) // len(envs), len(envs)), np.uint8)
        for age, done in zip(ages, dones.reshape(ages.shape), strict=True):
            age[:] = self.ages[envs]
            self.ages[envs] = np.where(done, 0, np.minimum(age + 1, self.size - 1))
        return ages.ravel()

    def _join(self, envs: np.ndarray, frames: np.ndarray) -> None:
        """The newest rows' successors are from now on the rows to come: where these show something else (the
        environment did not resume where it was), the transitions to them do not count."""
        slots = self.newest[envs] % self.slots
        over = self.columns["terminated"][slots] | self.columns["truncated"][slots]
        torn = ~over & (frames != self.pending[envs]).reshape(len(envs), -1).any(1)
        self._discount(slots[torn & (self.newest[envs] >= 0)])

    def _check(self, numbers: np.ndarray, observations: np.ndarray, successors: np.ndarray) -> None:
        built = self._stacks(numbers)
        same = (built[:, :-1] == observations) & (built[:, 1:] == successors)
        whole = same.reshape(len(numbers), -1).all(1)
        self._discount(numbers[~whole] % self.slots)
        self._lost = 0 if whole.any() else self._lost + len(numbers)
        if self._lost > 2 * self.size * self.num_envs:
            raise EnvFault(
                "observations are not stacks of successive frames, though the outermost wrapper is"
                " FrameStackObservation; does an inner wrapper or the env reuse its arrays? Return copies"
            )

    def _discount(self, slots: np.ndarray) -> None:
        if len(slots):
            self.columns["weights"][slots] = 0.0
            self.weighted = True

    def erase(self, numbers: np.ndarray) -> None:
        super().erase(numbers)
        slots = numbers % self.slots
        self.frames[slots] = 0
        over = self.columns["terminated"][slots] | self.columns["truncated"][slots]
        self.lasts[self.columns["last"][slots[over]] % self.slots] = 0

    def gather(self, numbers: np.ndarray) -> dict[str, Column]:
        columns = super().gather(numbers)
        self._leave_out_lost(columns)
        del columns["age"], columns["last"]
        stacks = torch.from_numpy(self._stacks(numbers))
        return {**columns, "observations": stacks[:, :-1], "next_observations": stacks[:, 1:]}

    def _leave_out_lost(self, columns: dict[str, Column]) -> None:
        """Environments that end many more episodes than others may have overwritten the last frames of those."""
        last, rows = columns["last"], columns["terminated"] | columns["truncated"]  # type: ignore[operator]
        lost = rows & (last < self.ended - self.slots)  # type: ignore[operator]
        if lost.any():
            columns["weights"] = torch.where(lost, 0.0, columns.get("weights", torch.ones(len(lost))))  # type: ignore[arg-type]

    def _stacks(self, numbers: np.ndarray) -> np.ndarray:
        """[N, size + 1, ...]: the observation's frames and the successor's newest, from old to new."""
        slots = numbers % self.slots
        back = np.arange(self.size - 1, -1, -1)
        ages = self.columns["age"][slots][:, None]
        reach = np.minimum(back, ages)
        stacks = np.empty((len(numbers), self.size + 1, *self.frames.shape[1:]), np.uint8)
        stacks[:, :-1] = self.frames[(numbers[:, None] - reach * self.num_envs) % self.slots]
        if self.padded_with_zeros:
            stacks[:, :-1][back > ages] = 0
        stacks[:, -1] = self.frames[(numbers + self.num_envs) % self.slots]
        over = self.columns["terminated"][slots] | self.columns["truncated"][slots]
        stacks[over, -1] = self.lasts[self.columns["last"][slots[over]] % self.slots]
        envs = numbers % self.num_envs
        newest = ~over & (numbers == self.newest[envs])
        stacks[newest, -1] = self.pending[envs[newest]]
        return stacks

    # -- state ------------------------------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        columns = super().read(start, stop)
        over = columns["terminated"] | columns["truncated"]
        frames = self.frames[np.arange(start, stop) % self.slots]
        return {**columns, "frames": frames, "last_frames": self.lasts[columns["last"][over] % self.slots]}

    def write(self, start: int, stop: int, columns: dict[str, np.ndarray]) -> None:
        super().write(start, stop, columns)
        over = columns["terminated"] | columns["truncated"]
        self.frames[np.arange(start, stop) % self.slots] = columns["frames"]
        kept = columns["last"][over] >= self.ended - self.slots  # others were overwritten long before
        self.lasts[columns["last"][over][kept] % self.slots] = columns["last_frames"][kept]

    def state_dict(self) -> State:
        return {**super().state_dict(), "ended": self.ended, "pending": self.pending, "ages": self.ages}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.ended = int(state["ended"])
        counts = state.get("counts", np.full(self.num_envs, int(state["added"]) // self.num_envs))
        self.newest = (np.asarray(counts) - 1) * self.num_envs + np.arange(self.num_envs)
        self.pending[:] = state["pending"]
        self.ages[:] = state["ages"]
