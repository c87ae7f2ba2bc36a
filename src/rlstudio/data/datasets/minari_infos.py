"""The infos of an episode as Minari stores them: a group of arrays by key, of the reset first and then of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlstudio.core.errors import UserError, suggest


@np.errstate(over="ignore")  # what float32 cannot hold is infinite, as it is in an environment's own steps
def read_infos(stored: Mapping[str, object], keys: Sequence[str], steps: int, label: str) -> dict[str, np.ndarray]:
    """What each step gave for these keys. Who leaves out the info of the reset is read as well."""
    columns = {}
    for key in keys:
        if key not in stored:
            known = f"it has: {', '.join(sorted(stored))}" if stored else "it has no infos; leave env.infos out"
            raise UserError(f"{label}: has no info {key!r} for env.infos{suggest(key, stored) or ';'} {known}")
        values = np.asarray(stored[key])
        if values.dtype.kind not in "biuf" or values.shape not in ((steps,), (steps + 1,)):
            raise UserError(f"{label}: info {key!r} is not one number per step; leave it out of env.infos")
        columns[key] = values[-steps:].astype(np.float32)
    return columns


def stored_infos(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """What the steps gave, and of the reset nothing."""
    return {key: np.append(np.float32(np.nan), values) for key, values in columns.items()} or None
