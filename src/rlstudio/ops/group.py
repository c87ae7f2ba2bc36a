"""Learning alone: the group of one process, in which everything is already agreed on."""

from __future__ import annotations

from torch import Tensor

from rlstudio.core.contracts import Group
from rlstudio.core.rng import Rng


class Alone:
    """A Group of one rank: every method gives back what it got, so alone nothing is computed for it."""

    rank = 0
    size = 1

    def mean(self, flat: Tensor) -> None:
        """It is its own mean."""

    def sum(self, numbers: Tensor) -> Tensor:
        return numbers

    def largest(self, numbers: Tensor) -> Tensor:
        return numbers

    def any(self, flag: Tensor) -> Tensor:
        return flag

    def own(self, rng: Rng) -> Rng:
        return rng


ALONE: Group = Alone()
