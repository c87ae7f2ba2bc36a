"""Updates and selections: what a search learns from its scores, and what it does in the end.

Both see candidates [E, K, H, ...] with scores [E, K]; a score of -inf is a candidate that counts for nothing. If every
candidate is so bad, all count alike.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Weigh = Callable[[Tensor], Tensor]
"""scores [E, K] -> weights [E, K] that sum to 1"""


def elites(count: int) -> Weigh:
    """The best `count` in equal shares: the cross-entropy method (Rubinstein 1999; De Boer et al. 2005)."""

    def weigh(scores: Tensor) -> Tensor:
        best = scores.topk(count, dim=1)
        shares = _shares(torch.where(best.values > -torch.inf, 0.0, -torch.inf))
        return torch.zeros_like(scores).scatter_(1, best.indices, shares)

    return weigh


def best_softmax(count: int, temperature: float) -> Weigh:
    """exp(score / temperature) among the best `count`, nothing for the others (TD-MPC2: Hansen et al. 2024)."""

    def weigh(scores: Tensor) -> Tensor:
        best = scores.topk(count, dim=1)
        return torch.zeros_like(scores).scatter_(1, best.indices, _shares(best.values / temperature))

    return weigh


def softmax(temperature: float, *, standardize: bool = False) -> Weigh:
    """exp(score / temperature), as MPPI has it (Williams et al. 2017). `standardize`: scores in units of their spread,
    so that a temperature means the same in every task."""

    def weigh(scores: Tensor) -> Tensor:
        if standardize:
            finite = torch.where(torch.isfinite(scores), scores, torch.nan)
            mean = finite.nanmean(1, keepdim=True)
            std = (finite - mean).square().nanmean(1, keepdim=True).sqrt()
            scores = (scores - mean) / (std + 1e-6)
        return _shares(scores / temperature)

    return weigh


def _shares(logits: Tensor) -> Tensor:
    """Softmax that gives equal shares where nothing is finite."""
    return logits.softmax(1).nan_to_num_(1.0 / logits.shape[1])


def effective_samples(weights: Tensor) -> Tensor:
    """1 / sum w^2 [E]: how many candidates decide; 1 is a single one."""
    return 1.0 / weights.square().sum(1)


def best_first_action(candidates: Tensor, scores: Tensor) -> Tensor:
    """The first action of the best sequence [E, ...]."""
    best = scores.argmax(1)
    return candidates[torch.arange(len(candidates), device=candidates.device), best, 0]


def mean_per_first_action(candidates: Tensor, scores: Tensor, choices: int) -> Tensor:
    """The choice after which sequences are best on average [E]: where most of them survive, the best one says nothing,
    the share that survives does (flat Monte Carlo). A choice that no finite candidate begins with is not taken."""
    counts = torch.isfinite(scores)
    begins = torch.nn.functional.one_hot(candidates[:, :, 0], choices).to(scores.dtype) * counts.unsqueeze(-1)
    totals = torch.einsum("ek,eka->ea", torch.where(counts, scores, 0.0), begins)
    number = begins.sum(1)
    return torch.where(number > 0, totals / number.clamp(min=1), -torch.inf).argmax(1)
