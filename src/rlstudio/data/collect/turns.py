"""Rows of agents that do not act at every step: one is gone, another waits for its turn (column `active`).

What happens to an agent while it waits is the outcome of its last own action: the rewards add up, the last observation
is the successor, and if the episode ends meanwhile, that action ended it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import State

OUTCOME = ("next_observations", "terminated", "truncated", "info")
TRANSITION = ("observations", "actions", "rewards", "weights", "active", *OUTCOME)
"""`info` only where keys of it are kept."""


def decisions(rollout: Batch) -> Batch:
    """The rollout [T, B] with the outcome of each action in its own row; rows without an action weigh nothing.

    What an action of an earlier rollout led to meanwhile is lost to it: that rollout was learned from already.
    """
    active_TB, dones_TB = rollout.active, rollout.dones
    steps = len(active_TB)
    weights_TB = torch.ones(rollout.shape) if rollout.weights is None else rollout.weights.clone()
    rewards_TB = rollout.rewards.clone()
    last_TB = torch.arange(steps).unsqueeze(1).expand(rollout.shape).clone()
    owned_TB = torch.zeros_like(active_TB)  # rows in which an action of this rollout still works
    for t in range(1, steps):
        owned_TB[t] = ~active_TB[t] & ~dones_TB[t - 1] & (active_TB[t - 1] | owned_TB[t - 1])
    for t in range(steps - 2, -1, -1):
        goes_on_B = owned_TB[t + 1]
        last_TB[t] = torch.where(goes_on_B, last_TB[t + 1], last_TB[t])
        rewards_TB[t] += torch.where(goes_on_B, rewards_TB[t + 1], 0.0)
        weights_TB[t] = torch.where(goes_on_B, torch.minimum(weights_TB[t], weights_TB[t + 1]), weights_TB[t])
    envs = torch.arange(rollout.shape[1]).expand(rollout.shape)
    moved = {name: _at(getattr(rollout, name), last_TB, envs) for name in OUTCOME if name in rollout}
    for name in ("terminated", "truncated"):
        moved[name] = moved[name] & ~owned_TB  # type: ignore[operator]
    rewards_TB = torch.where(owned_TB, 0.0, rewards_TB)
    return rollout.with_(**moved, rewards=rewards_TB, weights=weights_TB * active_TB)


def _at(column: Column, rows: Tensor, envs: Tensor) -> Column:
    if isinstance(column, dict):
        return {name: entry[rows, envs] for name, entry in column.items()}
    return column[rows, envs]


def _tensors(column: State | np.ndarray) -> Column:
    if isinstance(column, dict):
        return {name: torch.as_tensor(entry) for name, entry in column.items()}
    return torch.as_tensor(column)


class OpenDecisions:
    """The newest action of each environment, held back until it is known what it led to: when the agent acts again, or
    its episode ends. Replay then gets whole transitions, however the steps are cut into rollouts.

    The number of a row does not tell when it was taken, so the actions of the first `warmup` steps are counted.
    """

    def __init__(self, warmup: int = 0) -> None:
        self.rows: dict[str, Column] = {}  # [1, B]; those that are not `active` hold nothing
        self.warmup = warmup
        self.steps = 0
        self.early = np.zeros(0, np.int64)  # [B] actions of each environment in the first steps

    def complete(self, rollout: Batch) -> Batch:
        """What was held back and the rollout, [T + 1, B], without what is open now (not `active`)."""
        acted_B = rollout.active[: max(self.warmup - self.steps, 0)].sum(0).numpy()
        self.early = self.early + acted_B if len(self.early) else acted_B
        self.steps += len(rollout)
        if rollout.weights is None:
            rollout = rollout.with_(weights=torch.ones(rollout.shape))
        rollout = Batch(lead=2, infos=None, **rollout.only(name for name in TRANSITION if name in rollout))
        if self.rows:
            rollout = Batch.merge([Batch(lead=2, infos=None, **self.rows), rollout])
        whole = decisions(rollout)
        actions_after_TB = whole.active.long().flip(0).cumsum(0).flip(0) - whole.active.long()
        open_TB = whole.active & (actions_after_TB == 0) & ~whole.dones
        newest_1B, envs_1B = open_TB.long().argmax(0, keepdim=True), torch.arange(rollout.shape[1]).unsqueeze(0)
        held = whole.with_(active=open_TB)
        self.rows = {name: _at(getattr(held, name), newest_1B, envs_1B) for name in rollout.names}
        return whole.with_(active=whole.active & ~open_TB)

    def state_dict(self) -> State:
        return {"rows": dict(self.rows), "steps": self.steps, "early": self.early}

    @staticmethod
    def without_rows(state: State) -> State:
        """A state as if none of the rows so far had become part of replay."""
        return {**state, "early": np.zeros_like(state["early"])}

    def load_state_dict(self, state: State) -> None:
        self.rows = {name: _tensors(column) for name, column in state["rows"].items()}
        self.steps, self.early = int(state["steps"]), np.asarray(state["early"])
