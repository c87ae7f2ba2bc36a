"""Where a row of a replay comes from. Nothing of it is stored with the row: it follows from the row's number, from the
ratio that the source keeps, and from how many episodes have ended since.

Row number k * num_envs + e is the k-th of column e, so its source and its step are known. The source collects step k
when `due` updates ask for it (`ReplaySource.next`), and acts with the weights that so many samples have made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstudio.core.contracts import Contributor, ReplayPlan


def origin_of(column: int, origins: Sequence[Contributor]) -> int:
    """Which source a column belongs to."""
    return next(number for number, origin in enumerate(origins) if column in origin.columns)


def samples_before(step: int, plan: ReplayPlan, run_envs: int) -> int:
    """Samples that were learned from when vector step `step` (from 0) was collected by workers in step: the version of
    the policy. The warm-up has version 0."""
    missing = step * run_envs - plan.first_sample(run_envs)
    return 0 if missing < 0 else (missing // plan.every + 1) * plan.updates


def fragment_before(step: int, steps: Sequence[int]) -> int:
    """Of a worker's fragments of these lengths the one that vector step `step` of it came in."""
    return int(np.searchsorted(np.cumsum(steps), step, side="right"))


def episode_of(done: np.ndarray, open_episode: int) -> int:
    """Which episode a row was in: `done` are the ends from that row to the newest one, `open_episode` is the number of
    the one that is open after it."""
    return open_episode - int(done.sum())
