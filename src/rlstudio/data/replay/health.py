"""What a replay is like, as metrics of an epoch: how full, how old, how much of it is the same.

data/replay_fill       rows held / capacity
data/replay_age        mean age of the rows of the last sample, in rows that came since
data/duplicate_share   share of the last sample's rows that equal another one of it: observation, action and reward;
                       the same row drawn twice does not count
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import ReplayBuffer

MOST_ROWS = 256
"""Of the last sample, that are compared: enough to see a replay that repeats itself, and a copy of kilobytes."""


def replay_health(replay: ReplayBuffer, last: Batch | None) -> dict[str, float]:
    """Without a sample, as while it fills for the first one, only how full it is."""
    health = {"data/replay_fill": len(replay) / replay.capacity}
    if last is None or last.lead != 1 or "rows" not in last or not len(last):
        return health
    rows = last.rows.numpy(force=True)
    newest = int(replay.counts.max()) * replay.num_envs
    health["data/replay_age"] = float((newest - 1 - rows).mean())
    if isinstance(last.observations, Tensor):
        health["data/duplicate_share"] = _duplicate_share(last, rows)
    return health


def _duplicate_share(batch: Batch, rows: np.ndarray) -> float:
    first = np.unique(rows, return_index=True)[1][:MOST_ROWS]
    columns = [column[first].numpy(force=True) for column in (batch.observations, batch.actions, batch.rewards)]
    different = {b"".join(column[n].tobytes() for column in columns) for n in range(len(first))}
    return 1 - len(different) / len(first)
