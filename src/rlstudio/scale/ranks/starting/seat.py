"""Who this process is among those that torchrun has started. Free of torch: every command that trains asks."""

from __future__ import annotations

import os
from typing import NamedTuple


class TorchrunRank(NamedTuple):
    rank: int
    size: int


def seat() -> TorchrunRank | None:
    """What the variables of torchrun say; None where this process is alone."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    alone = not (rank.isdecimal() and size.isdecimal() and int(size) > 1)
    return None if alone else TorchrunRank(int(rank), int(size))
