"""Whether the rows that a run keeps fit into memory."""

from __future__ import annotations

from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import VecEnv
from rlstudio.core.errors import ConfigError
from rlstudio.core.ram import usable_ram
from rlstudio.data.replay.buffer import row_bytes
from rlstudio.data.replay.priorities import ROW_BYTES as PRIORITY_BYTES
from rlstudio.data.replay.rows import row_dtype
from rlstudio.experiment.config.experiment import ExperimentConfig

MEMORY_SHARE = 0.9
"""The part of the usable memory that rows may take."""


def check_memory(cfg: ExperimentConfig, env: VecEnv) -> None:
    """A buffer that cannot fit is refused now, not after hours when it fills."""
    if ALGOS.load(cfg.policy.algo).off_policy:
        field, rows, size = "buffer.capacity", cfg.buffer.capacity, row_bytes(env.spaces)
        size += PRIORITY_BYTES if getattr(cfg.train, "prioritized", None) else 0
    else:
        field, rows, size = "train.steps_per_epoch", cfg.train.steps_per_epoch, row_dtype(env.spaces).itemsize
    needed = rows * size
    total = usable_ram()
    if needed > MEMORY_SHARE * total:
        raise ConfigError(
            f"{field}: {rows:,} rows of {size:,} bytes need {needed / 2**30:,.1f} GiB,"
            f" this process may use {total / 2**30:,.1f}; lower it"
        )
