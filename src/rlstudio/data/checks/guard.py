"""Row guard: what enters learning is finite and inside its declared ranges, or it does not count.

A bad row keeps its place in the rollout (episodes stay whole) but gets weight zero and harmless numbers, and counts
once in `bad_rows` and once per reason in `counts`. Rewards may be clipped here. Everything is one
vectorised look at a finished block; what exactly is bad is looked for only where something is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Space
from rlstudio.data.checks.flawed_rows import FlawedRow, first_bad_row

OF_REWARDS = ("rewards", "reward_range")
"""Reasons why a reward itself cannot be used."""

FAR = 100.0
"""Half widths of its range that an action of numbers may lie beyond: policies are clipped into the range, and healthy
ones want a few times its width, but one that wants so much has run away."""


@dataclass
class RowGuard:
    reward_clip: float | None = None
    reward_range: tuple[float, float] | None = None
    check_actions: bool = True

    def __post_init__(self) -> None:
        self.bad_rows = 0
        self.counts = {"observations": 0, "rewards": 0, "reward_range": 0, "actions": 0}
        self.first: FlawedRow | None = None  # of the last rollout
        self._farthest: np.ndarray | None = None  # |action - middle of its range|, of numbers; infinite without a range
        self.rewards: np.ndarray | None = None  # the same, if rows of it were bad: as they came, NaN if unusable

    def __call__(self, rollout: Batch, action_space: Space) -> Batch:
        """The rollout as learning may see it, with a `weights` column only where something had to be left out."""
        bad, self.first, self.rewards = None, None, None
        unusable: list[np.ndarray] = []
        with np.errstate(invalid="ignore", over="ignore"):  # what is looked for
            findings = self._findings(rollout, action_space)
        active = rollout.active.numpy() if "active" in rollout else True  # of who is gone nothing is learned anyway
        for reason, mask in findings:
            if mask.any():
                self.counts[reason] += int((mask & active).sum())
                bad = mask if bad is None else bad | mask
                unusable += [mask] if reason in OF_REWARDS else []
        if bad is not None:
            self.bad_rows += int((bad & active).sum())
            self.first = first_bad_row(rollout, bad & active, self.reward_range) if (bad & active).any() else None
            self.rewards = rollout.rewards.numpy().copy()
            for mask in unusable:
                self.rewards[mask] = np.nan
            _neutralise(rollout, bad)
            rollout = rollout.with_(weights=torch.from_numpy((~bad).astype(np.float32)))
        if self.reward_clip is not None:
            rollout = rollout.with_(rewards=rollout.rewards.clamp(-self.reward_clip, self.reward_clip))
        return rollout

    def _findings(self, rollout: Batch, action_space: Space) -> list[tuple[str, np.ndarray]]:
        """Masks [T, B] of the rows with something wrong, by reason; none where a quick look says that all is well."""
        (rewards,) = _arrays(rollout, "rewards")
        findings = [("rewards", _not_finite(rewards))]
        # What an agent remembers of a bad observation is as bad, until the episode ends.
        for array in _arrays(rollout, "observations", "next_observations", "carry"):
            if array.dtype.kind == "f":
                findings.append(("observations", _not_finite(array)))
        if self.reward_range is not None:
            low, high = self.reward_range
            findings.append(("reward_range", np.isfinite(rewards) & ((rewards < low) | (rewards > high))))
        if self.check_actions:
            (actions,) = _arrays(rollout, "actions")
            findings.append(("actions", self._bad_actions(actions, action_space)))
        return [(reason, mask) for reason, mask in findings if mask is not None]

    def _bad_actions(self, actions_TB: np.ndarray, space: Space) -> np.ndarray | None:
        match space:
            case Box():
                return self._far_actions(actions_TB, space)
            case Discrete():
                if actions_TB.min() >= 0 and actions_TB.max() < space.n:
                    return None
                return ~_within(actions_TB[..., None], np.asarray([space.n]))
            case MultiDiscrete():
                good = _within(actions_TB, np.asarray(space.nvec))
                return None if good.all() else ~good
        return None

    def _far_actions(self, actions_TB: np.ndarray, space: Box) -> np.ndarray | None:
        if self._farthest is None:
            low, high = (side.astype(np.float64).reshape(-1) for side in space.bounds())
            self._farthest = np.maximum(np.abs(low), np.abs(high)) + FAR * (high - low) / 2
        flat = actions_TB.reshape(-1)
        # One call for nearly all blocks: where the sum of squares is that small, no action is far.
        if flat.dot(flat) < self._farthest.min() ** 2:
            return None
        rows = np.abs(actions_TB.reshape(*actions_TB.shape[:2], -1))
        bad = ~(np.isfinite(rows) & (rows <= self._farthest)).all(-1)
        return np.asarray(bad) if bad.any() else None

    def state_dict(self) -> State:
        return {"bad_rows": self.bad_rows, "counts": dict(self.counts)}

    def load_state_dict(self, state: State) -> None:
        self.bad_rows = int(state["bad_rows"])
        self.counts = {reason: int(count) for reason, count in state["counts"].items()}


def _not_finite(block: np.ndarray) -> np.ndarray | None:
    """Rows [T, B] with a number that is not finite; None where there is none."""
    flat = block.reshape(-1)
    # The sum of squares is a number unless something is NaN, infinite or huge: one call instead of a mask per rollout.
    if isfinite(flat.dot(flat)):
        return None
    return np.asarray(~np.isfinite(block.reshape(*block.shape[:2], -1)).all(-1))


def _within(choices: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.asarray(np.logical_and(choices >= 0, choices < counts).all(-1))


def _neutralise(rollout: Batch, bad: np.ndarray) -> None:
    """Zeros in place of the bad rows' numbers: a weight of zero alone would still let NaN through (0 * NaN = NaN)."""
    for array in _arrays(rollout, "observations", "next_observations", "actions", "rewards", "carry"):
        array[bad] = 0


def _arrays(rollout: Batch, *names: str) -> Iterator[np.ndarray]:
    """Those of these columns that the rollout has, entry by entry."""
    for name in names:
        if name in rollout:
            column = rollout.array(name)
            yield from column.values() if isinstance(column, dict) else (column,)
