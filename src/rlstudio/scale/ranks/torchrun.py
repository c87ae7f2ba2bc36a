"""Ranks that torchrun has started: who this process is, and how it meets the others."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import NamedTuple

from torch.distributed.rendezvous import rendezvous

from rlstudio.core.errors import RankLost
from rlstudio.scale.ranks.children import CLOSING
from rlstudio.scale.ranks.link import FOR_EVER, LOOPBACK, Link

MEETING = timedelta(minutes=5)


class Seat(NamedTuple):
    """One process of torchrun."""

    rank: int
    size: int
    on_one_host: bool


def seat() -> Seat | None:
    """What the variables of torchrun say; None where this process is alone."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdigit() and size.isdigit() and int(size) > 1):
        return None
    return Seat(int(rank), int(size), os.environ.get("MASTER_ADDR") in (LOOPBACK, "localhost"))


def meet(place: Seat, *, nccl: bool, patience: float | None = None) -> Link:
    """`patience`: for so many seconds this rank waits in one operation; None: for ever."""
    store, _, _ = next(rendezvous("env://", place.rank, place.size, timeout=MEETING))

    def check(waited: float) -> None:
        if patience is not None and waited >= patience:
            raise RankLost(
                f"rank 0 waited {patience:g} s for the other ranks, and they still compute or hang in an environment;"
                " raise rollout.step_timeout if a step may take that long"
            )

    return Link(
        store,
        place.rank,
        place.size,
        host=LOOPBACK if place.on_one_host else None,
        nccl=nccl,
        timeout=FOR_EVER if patience is None else timedelta(seconds=patience) + CLOSING,
        check=check,
    )
