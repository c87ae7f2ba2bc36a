"""Reward normalisation: rewards divided by the running standard deviation of the discounted return.

    R_t = r_t + gamma R_{t-1} [same episode]        r_t <- clip(r_t / std(R), +-10)

Only the scale changes, never the sign, so what is best stays best; learning rates and the value's weight then fit
environments whose rewards are tiny or huge. Raw rewards stay in the rollout and in every reported return.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Group, State
from rlstudio.core.spaces import Box, Space
from rlstudio.ops.group import ALONE
from rlstudio.ops.returns import discounted_sums
from rlstudio.ops.running import merge_moments

CLIP = 10.0


def is_wanted(normalize_rewards: bool | Literal["auto"], action: Space) -> bool:
    """What the setting means where these are the actions: `auto` scales rewards in continuous control."""
    return isinstance(action, Box) if normalize_rewards == "auto" else normalize_rewards


class RewardScale:
    """`scale(rollout)` folds a rollout's returns in and gives it back with scaled rewards."""

    def __init__(self, gamma: float, num_envs: int, device: str = "cpu", group: Group = ALONE) -> None:
        self.gamma = gamma
        self.group = group
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.mean = torch.zeros(1, dtype=torch.float64, device=device)
        self.square = torch.zeros(1, dtype=torch.float64, device=device)
        self.open_returns = torch.zeros(num_envs, device=device)  # of the episodes under way

    def __call__(self, rollout: Batch) -> Batch:
        self._fold(rollout)
        return self.apply(rollout)

    def begin_with(self, count: float, mean: float, variance: float) -> None:
        """Statistics of earlier returns, as if they had been folded in here."""
        self.count.fill_(count)
        self.mean.fill_(mean)
        self.square.fill_(variance * count)

    @property
    def std(self) -> Tensor:
        """What rewards are divided by now."""
        return (self.square / self.count.clamp(min=1.0) + 1e-8).sqrt().float()

    def apply(self, rollout: Batch) -> Batch:
        """The rollout with rewards scaled by what is known so far."""
        return rollout.with_(rewards=(rollout.rewards / self.std).clamp(-CLIP, CLIP))

    def _fold(self, rollout: Batch) -> None:
        going_on_TB = self.gamma * (~rollout.dones).float()
        # A non-finite reward must not spoil the statistics of all that follow.
        rewards_TB = rollout.rewards.nan_to_num(0.0, 0.0, 0.0)
        if "active" in rollout:  # who is gone or waits earns nothing here, and time does not pass for it
            rewards_TB = torch.where(rollout.active, rewards_TB, 0.0)
            going_on_TB = torch.where(rollout.active, going_on_TB, (~rollout.dones).float())
        rewards_TB[0] += self.open_returns
        # The sum runs forwards in time, the operator backwards: turn time round. Row t decays by what row t - 1 left.
        decay_TB = torch.cat([going_on_TB[:1], going_on_TB[:-1]])
        returns_TB = discounted_sums(rewards_TB.flip(0), decay_TB.flip(0)).flip(0)
        self.open_returns = returns_TB[-1] * going_on_TB[-1]
        weights = None if rollout.weights is None else rollout.weights.reshape(-1)
        before = (self.count, self.mean, self.square)
        self.count, self.mean, self.square = merge_moments(*before, returns_TB.reshape(-1, 1), weights, self.group)

    def _tensors(self) -> dict[str, Tensor]:
        return {"count": self.count, "mean": self.mean, "square": self.square, "open_returns": self.open_returns}

    def state_dict(self) -> State:
        return {**self._tensors()}

    def load_state_dict(self, state: State) -> None:
        for name, tensor in self._tensors().items():
            setattr(self, name, torch.as_tensor(state[name]).to(tensor))
