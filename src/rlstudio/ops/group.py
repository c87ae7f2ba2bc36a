"""The group of processes that learn together: how they agree on a gradient, and the group of one, in which everything
is agreed on already."""

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


def average_gradient(grad: Tensor, weights: Tensor | None, group: Group) -> None:
    """In place the gradient of the mean over the rows of all ranks, whose weights count. A gradient that is not finite
    is so for all of them."""
    share = grad.new_ones(()) if weights is None else weights.mean()
    grad.mul_(share * group.size / group.sum(share).clamp(min=1e-8))
    group.mean(grad)
