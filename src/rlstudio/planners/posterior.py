"""Planning as inference: samples of a prior, reweighted by what they return.

    p*(tau) = p0(tau) exp(beta R(tau)) / Z          min_q KL(q || p*)  =  max_q  beta E_q[R] - KL(q || p0)  =  log Z

With K samples of p0 the self-normalised weights w ~ exp(beta R) stand for p* (consistent as K grows):

    E_q[R] = sum w R        KL(q || p0) = sum w log(K w)        log Z = log(mean exp(beta R))        ESS = 1 / sum w^2

Beta is given, or found from how far q may go from p0 (`beta_for`, the dual of REPS, Peters et al. 2010). Dims: E
environments, K samples. A return that is not finite is a sample that p* never draws.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BISECTIONS = 20
DECADES = 4.0
"""Beta is looked for within 10 to plus and minus this, in units of one over the spread of the returns."""


class Posterior(NamedTuple):
    """What a weighting of the samples amounts to, a row per environment."""

    weights: Tensor  # [E, K], sum 1
    expected_return: Tensor  # [E]: of q
    kl: Tensor  # [E]: from q to p0, in nats; at most log K
    effective_samples: Tensor  # [E]: how many samples decide


def posterior(returns: Tensor, beta: Tensor) -> Posterior:
    """The samples [E, K] weighted by exp(beta R); beta [E]."""
    return weighted(returns, _tempered(returns, beta).softmax(1))


def best(returns: Tensor) -> Posterior:
    """What the posterior becomes as beta grows without end: all weight on the best sample."""
    top = torch.where(torch.isfinite(returns), returns, -torch.inf).argmax(1)
    return weighted(returns, F.one_hot(top, returns.shape[1]).to(returns.dtype))


def weighted(returns: Tensor, weights: Tensor) -> Posterior:
    """Any weights [E, K] that sum to 1."""
    counted = torch.where(weights > 0, returns, 0.0)
    kl = torch.special.xlogy(weights, weights * weights.shape[1]).sum(1)
    return Posterior(weights, (weights * counted).sum(1), kl, 1.0 / weights.square().sum(1))


def log_z(returns: Tensor, beta: Tensor) -> Tensor:
    """log E_p0[exp(beta R)] [E]: the best that any q can reach."""
    tempered = torch.where(torch.isfinite(returns), beta[:, None] * returns, -torch.inf)
    return torch.logsumexp(tempered, 1) - log(returns.shape[1])


def beta_for(returns: Tensor, kl: float) -> Tensor:
    """The beta [E] whose posterior is `kl` nats from the prior, or as near as these samples allow."""
    finite = torch.isfinite(returns)
    count = finite.sum(1).clamp(min=1)
    mean = torch.where(finite, returns, 0.0).sum(1) / count
    spread = (torch.where(finite, returns - mean[:, None], 0.0).square().sum(1) / count).sqrt()
    unit = 1.0 / (spread + torch.finfo(returns.dtype).eps * (1.0 + mean.abs()))
    low, high = torch.full_like(unit, -DECADES), torch.full_like(unit, DECADES)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        near = posterior(returns, unit * 10.0**middle).kl < kl
        low, high = torch.where(near, middle, low), torch.where(near, high, middle)
    return torch.where(spread > 0, unit * 10.0**low, 0.0)  # where all return the same there is nowhere to go


def _tempered(returns: Tensor, beta: Tensor) -> Tensor:
    """beta R where it is a number, never drawn where not; all alike where nothing is a number."""
    finite = torch.isfinite(returns)
    # The best is taken off first: at a large beta little else is left of a float.
    top = torch.where(finite, returns, -torch.inf).amax(1, keepdim=True)
    logits = torch.where(finite, beta[:, None] * (returns - top), -torch.inf)
    return torch.where(finite.any(1, keepdim=True), logits, 0.0)
