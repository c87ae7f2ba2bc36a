"""How the ranks that torchrun has started meet: by its variables MASTER_ADDR and MASTER_PORT."""

from __future__ import annotations

import os
from datetime import timedelta

from torch.distributed.rendezvous import rendezvous

from rlstudio.scale.ranks.link import CLOSING, FOR_EVER, LOOPBACK, Link, present, within
from rlstudio.scale.ranks.starting.seat import TorchrunRank

MEETING = timedelta(minutes=5)
"""For the other processes of torchrun to start."""


def meet(place: TorchrunRank, *, nccl: bool, patience: float | None = None) -> Link:
    """`patience`: for so many seconds this rank waits in one operation; None: for ever."""
    store, _, _ = next(rendezvous("env://", place.rank, place.size, timeout=MEETING))
    store.set(present(place.rank), "")
    if place.rank:
        store.wait([present(0)], FOR_EVER)  # it may evaluate before it learns
    else:
        store.wait([present(rank) for rank in range(1, place.size)], MEETING)
    on_one_host = os.environ.get("MASTER_ADDR") in (LOOPBACK, "localhost")
    return Link(
        store,
        place.rank,
        place.size,
        host=LOOPBACK if on_one_host else None,
        nccl=nccl,
        timeout=FOR_EVER if patience is None else timedelta(seconds=patience) + CLOSING,
        check=lambda waited: None if patience is None else within(patience, waited),
    )
