"""Row guard: what enters learning is finite and inside its declared ranges, or it does not count.

A bad row keeps its place in the rollout (episodes stay whole) but gets weight zero and harmless numbers, and is counted
by reason. Rewards may be clipped here. Everything is one vectorised look at a finished block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.spaces import Box, Discrete, MultiDiscrete, Space


@dataclass
class RowGuard:
    reward_clip: float | None = None
    reward_range: tuple[float, float] | None = None
    check_actions: bool = True

    def __post_init__(self) -> None:
        self.rows = 0
        self.counts = {"observations": 0, "rewards": 0, "reward_range": 0, "actions": 0}

    def __call__(self, rollout: Batch, action_space: Space) -> Batch:
        """The rollout as learning may see it, with a `weights` column only where something had to be left out."""
        self.rows += rollout.rewards.numel()
        bad = None
        for reason, mask in self._findings(rollout, action_space):
            if mask is not None and mask.any():
                self.counts[reason] += int(mask.sum())
                bad = mask if bad is None else bad | mask
        if bad is not None:
            _neutralise(rollout, bad)
            rollout = rollout.with_(weights=torch.from_numpy((~bad).astype(np.float32)))
        if self.reward_clip is not None:
            rollout.rewards.clamp_(-self.reward_clip, self.reward_clip)
        return rollout

    def _findings(self, rollout: Batch, action_space: Space) -> list[tuple[str, np.ndarray | None]]:
        rewards = rollout.rewards.numpy()
        finite_rewards = np.isfinite(rewards)
        findings: list[tuple[str, np.ndarray | None]] = [("rewards", None if finite_rewards.all() else ~finite_rewards)]
        for name in ("observations", "next_observations"):
            column = getattr(rollout, name)
            for tensor in column.values() if isinstance(column, dict) else [column]:
                if tensor.is_floating_point():
                    finite = np.isfinite(tensor.numpy())
                    if not finite.all():
                        findings.append(("observations", ~finite.reshape(*rewards.shape, -1).all(-1)))
        if self.reward_range is not None:
            low, high = self.reward_range
            findings.append(("reward_range", finite_rewards & ((rewards < low) | (rewards > high))))
        if self.check_actions:
            findings.append(("actions", _bad_actions(rollout.actions.numpy(), action_space)))
        return findings

    def state_dict(self) -> State:
        return {"rows": self.rows, "counts": dict(self.counts)}

    def load_state_dict(self, state: State) -> None:
        self.rows = int(state["rows"])
        self.counts = {reason: int(count) for reason, count in state["counts"].items()}


def _bad_actions(actions_TB: np.ndarray, space: Space) -> np.ndarray | None:
    match space:
        case Box():
            good = np.isfinite(actions_TB)
        case Discrete():
            if actions_TB.min() >= 0 and actions_TB.max() < space.n:
                return None
            good = (actions_TB >= 0) & (actions_TB < space.n)
        case MultiDiscrete():
            good = (actions_TB >= 0) & (actions_TB < np.asarray(space.nvec))
        case _:
            return None
    return None if good.all() else ~good.reshape(*actions_TB.shape[:2], -1).all(-1)


def _neutralise(rollout: Batch, bad: np.ndarray) -> None:
    """Zeros in place of the bad rows' numbers: a weight of zero alone would still let NaN through (0 * NaN = NaN)."""
    mask = torch.from_numpy(bad)
    for name in ("observations", "next_observations", "actions", "rewards"):
        column = getattr(rollout, name)
        for tensor in column.values() if isinstance(column, dict) else [column]:
            tensor[mask] = 0
