"""LearnedValue: what is still to come, learned from experience and believed as far as it proved right.

It counts in units of the largest reward seen times the steps that the discount looks ahead, and is held within what
rewards like those seen can add up to.

    trust = 1 - E[(V(o) - (R_n + gamma^n V(o_n)))^2] / Var[R_n]      over rows before anything is learned from them
    plans count  trust V(o) + (1 - trust) E[V]

A value of little experience is mostly noise, and where all plans survive, noise is all that tells them apart: so it is
believed as far as it foretold the rewards R_n of the next n steps, and nothing where they were always the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Group
from rlstudio.core.rng import Rng
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.networks.normalizer import Normalizer
from rlstudio.ops.group import ALONE

LONGEST = 1000.0
"""Steps that an undiscounted value looks ahead."""

MEMORY, MEMORY_SHARE = 500.0, 0.25
"""Rows over which errors of the value are averaged: so many, or this share of all rows so far. Rows come in
pieces that are alike, all at the end of an episode for example, and one piece says little."""


class LearnedValue(nn.Module):
    """forward(observations) -> what plans take to come after them, for any leading dimensions."""

    variant = "value"

    def __init__(self, size: int, network: NetworkConfig, rng: Rng, gamma: float, memory: int | None = None) -> None:
        """`size`: numbers of an observation; `memory`: rows over which errors are averaged, None: as MEMORY says."""
        super().__init__()
        self.memory = memory
        self.normalizer = Normalizer(size)
        self.net = MLP(size, network.hidden_sizes, 1, network.activation, rng, gain=1.0)
        self.ahead = min(1.0 / (1.0 - gamma), LONGEST) if gamma < 1 else LONGEST
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64))
        self.register_buffer("reward_range", torch.zeros(2))
        self.register_buffer("foretold", torch.zeros(5, dtype=torch.float64))

    rows: Tensor  # that the statistics are of
    reward_range: Tensor  # lowest and highest seen
    foretold: Tensor  # fading sums over rows: 1, R_n, R_n^2, squared error, target

    def forward(self, observations: Tensor) -> Tensor:
        middle = (self.foretold[4] / self.foretold[0].clamp(min=1e-9)).float()
        return torch.lerp(middle, self.expected(observations), self.trust)

    def units(self, observations: Tensor) -> Tensor:
        """What the network says, in units of `scale`."""
        return self.net(self.normalizer(observations.float())).squeeze(-1)  # type: ignore[no-any-return]

    @property
    def largest(self) -> Tensor:
        """The largest absolute reward so far."""
        return self.reward_range.abs().amax().clamp(min=1e-6)

    @property
    def scale(self) -> Tensor:
        return self.largest * self.ahead

    def expected(self, observations: Tensor) -> Tensor:
        """What the network expects, within what can be: an unfinished episode has at least one more reward."""
        low, high = self.reward_range
        lowest = torch.where(low > 0, low, low * self.ahead)
        highest = torch.where(high < 0, high, high * self.ahead)
        return (self.units(observations) * self.scale).clamp(lowest, highest)

    def targets(self, windows: Batch) -> Tensor:
        """R_n + gamma^n V(o_n) of n-step transitions, [N]: a time limit bootstraps, a death does not."""
        following = self.expected(windows.next_observations) * (~windows.terminated)
        targets: Tensor = windows.rewards + windows.discounts * following
        return targets

    @property
    def trust(self) -> Tensor:
        """Between 0 and 1: how well the value foretold rewards."""
        count, total, square, error, _ = self.foretold
        total_weight = count.clamp(min=1e-9)
        variance = square / total_weight - (total / total_weight).square()
        least = 1e-9 * self.largest.square()  # of rewards that are all the same
        trust: Tensor = (1.0 - error / total_weight / variance.clamp(min=least)).clamp(0.0, 1.0)
        return torch.where(count > 0, trust, 0.0).float()  # no window was judged yet

    @torch.no_grad()
    def learn_statistics(self, rows: Batch, group: Group = ALONE) -> None:
        """Fold new experience of all ranks in, each row once; a rank without rows takes part too."""
        if group.size == 1 and not len(rows):
            return
        self.normalizer.update(rows.observations.float(), rows.weights, group)
        counted = rows.rewards if rows.weights is None else rows.rewards[rows.weights > 0]
        count = group.sum(torch.full_like(self.rows, len(counted)))
        none = counted.new_full((1,), -torch.inf)  # a rank may have no row that counts
        highest = torch.stack([torch.cat((none, sign * counted)).amax() for sign in (-1, 1)])
        new_range = group.largest(highest) * highest.new_tensor((-1, 1))
        if not count:
            return
        before = torch.where(self.rows > 0, self.reward_range, new_range)
        self.reward_range[0] = torch.minimum(before[0], new_range[0])
        self.reward_range[1] = torch.maximum(before[1], new_range[1])
        self.rows.add_(count)

    @torch.no_grad()
    def judge(self, windows: Batch, group: Group = ALONE) -> None:
        """Record how well it foretold these n-step transitions, those of all ranks; rows that are not finite are left
        out, and a rank without any takes part too."""
        if group.size == 1 and not len(windows):
            return
        targets = self.targets(windows)
        errors = (self.expected(windows.observations) - targets).square()
        terms = torch.stack((torch.ones_like(targets), windows.rewards, windows.rewards.square(), errors, targets))
        terms = torch.where(torch.isfinite(terms).all(0), terms, 0.0)
        weighted = terms if windows.weights is None else terms * windows.weights
        count = group.sum(torch.full_like(self.rows, len(windows)))
        share = (MEMORY_SHARE * self.rows.double()).clamp(min=MEMORY)
        fading = torch.exp(-count / (share if self.memory is None else self.memory))
        self.foretold.mul_(fading).add_(group.sum(weighted.double().sum(1)))
