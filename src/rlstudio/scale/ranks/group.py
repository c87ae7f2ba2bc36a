"""RankGroup: the `Group` of one of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from rlstudio.core.contracts import Group, Metrics
from rlstudio.core.rng import Rng
from rlstudio.scale.ranks.link import Link


class RankGroup:
    """Connects when the ranks first meet, so that a run can be built and refused without any of them."""

    def __init__(self, rank: int, size: int, connect: Callable[[], Link]) -> None:
        self.rank, self.size = rank, size
        self._connect = connect
        self._link: Link | None = None

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    @property
    def link(self) -> Link:
        if self._link is None:
            self._link = self._connect()
        return self._link

    def disconnect(self) -> None:
        self._link = None

    def mean(self, flat: Tensor) -> None:
        self.link.reduce(flat)
        flat.div_(self.size)

    def sum(self, numbers: Tensor) -> Tensor:
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def largest(self, numbers: Tensor) -> Tensor:
        return self._reduced(numbers, dist.ReduceOp.MAX)

    def any(self, flag: Tensor) -> Tensor:
        return self._reduced(flag.to(torch.uint8), dist.ReduceOp.MAX).bool()

    def own(self, rng: Rng) -> Rng:
        return rng if self.rank == 0 else rng.fork(f"rank-{self.rank}")

    def _reduced(self, numbers: Tensor, op: object) -> Tensor:
        reduced = numbers.detach().clone(memory_format=torch.contiguous_format)
        self.link.reduce(reduced, op)
        return reduced


def averaged(metrics: Mapping[str, Tensor], group: Group) -> Metrics:
    """The mean over the ranks."""
    names = sorted(metrics)
    if not names:
        return {}
    values = torch.stack([metrics[name].detach().double() for name in names])
    group.mean(values)
    return dict(zip(names, values.unbind(), strict=True))
