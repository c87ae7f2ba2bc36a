"""One row of a rollout with something wrong in it, in words: which number it is, and where the episode stood. Looked
for only once there is such a row, so good rollouts pay nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from rlstudio.core.batch import Batch, Column


class InspectedEnvs(Protocol):
    """What is asked of the environments of a block, which may be in other processes; a VecEnv has all of it."""

    agents: int

    @property
    def restart_reasons(self) -> list[str] | None: ...

    def describe_episode(self, env: int, ago: int = 0) -> str: ...


class FlawedRow(NamedTuple):
    """Row [time, env] of a block, before its numbers were replaced."""

    time: int
    env: int
    problem: str
    action: object
    is_before_step: bool = False  # what it begins with is bad already: a reset, or the end of the block before


def first_bad_row(rollout: Batch, bad_TB: np.ndarray, reward_range: tuple[float, float] | None) -> FlawedRow:
    """The earliest of the bad rows, of several at one time that of the first environment."""
    time, env = (int(index) for index in np.argwhere(bad_TB)[0])
    action = rollout.actions[time, env].tolist()
    acted_on = list(_not_finite("observation", rollout.observations, time, env))
    if acted_on:
        return FlawedRow(time, env, acted_on[0], action, is_before_step=True)
    result = list(_not_finite("observation", rollout.next_observations, time, env))[:1]
    reward = float(rollout.rewards[time, env])
    if not np.isfinite(reward):
        result.append(f"reward is {reward}")
    elif reward_range is not None and not reward_range[0] <= reward <= reward_range[1]:
        result.append(f"reward is {reward:g}, outside guardrails.reward_range {list(reward_range)}")
    if not result and "carry" in rollout:
        result.extend(list(_not_finite("the agent's memory", rollout.carry, time, env))[:1])
    return FlawedRow(time, env, " and ".join(result) or f"the policy's action is {action}", action)


def _not_finite(name: str, column: Column, time: int, env: int) -> Iterator[str]:
    """`observation 'state'[0] is nan` for the first such number of each entry."""
    entries = column.items() if isinstance(column, dict) else [("", column)]
    for key, tensor in entries:
        row = tensor[time, env].numpy()
        places = np.argwhere(~np.isfinite(row))
        if len(places):
            where = tuple(places[0].tolist())
            yield f"{name}{f' {key!r}' if key else ''}{list(where) if where else ''} is {row[where]}"


def describe(row: FlawedRow, env: InspectedEnvs, number: int, dones_TB: np.ndarray, open_length: int) -> str:
    """`env 3, episode 12 (seed 123), step 44: reward is nan; action 1`, of the block that was just collected.

    `number`: of the environment in the whole run; `open_length`: steps of its open episode before the block.
    """
    dones_T = dones_TB[:, row.env]
    ended_before = np.flatnonzero(dones_T[: row.time])
    step = row.time - int(ended_before[-1]) if len(ended_before) else open_length + row.time + 1
    step -= row.is_before_step
    if env.agents > 1:  # each ends on its own, so ends do not count the episodes of their world
        place = f"env {number // env.agents}, agent {number % env.agents}"
    else:
        place = f"env {number}, {env.describe_episode(row.env, ago=int(dones_T[row.time :].sum()))}"
    where = f"{place}, step {step}: {row.problem}"
    return f"{where} after reset" if step == 0 else where if row.is_before_step else f"{where}; action {row.action}"
