"""Functions of policies, which are plain tuples of tensors (`core/model`). No distribution objects: those cost more
than the maths.

Patterns name their fields: torch 2.11 cannot compile a `match` that takes them by position.
"""

from __future__ import annotations

from math import log, pi

import torch
import torch.nn.functional as F
from torch import Tensor

from rlstudio.core.contracts import Metrics
from rlstudio.core.model.policies import Categorical, Gaussian, MultiCategorical, Policy, SquashedGaussian
from rlstudio.ops.means import weighted_mean

__all__ = [
    "Categorical",
    "Gaussian",
    "MultiCategorical",
    "Policy",
    "SquashedGaussian",
    "entropy",
    "log_prob",
    "mode",
    "policy_change",
    "sample",
    "sample_with_log_prob",
]

HALF_LOG_2PI = 0.5 * log(2.0 * pi)


def log_prob(policy: Policy, actions: Tensor) -> Tensor:
    """log pi(a|s), [N]."""
    match policy:
        case Categorical(logits=logits):
            return F.log_softmax(logits, -1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)
        case MultiCategorical(logits=logits, nvec=nvec):
            parts = [Categorical(part) for part in _parts(logits, nvec)]
            return torch.stack([log_prob(part, actions[..., i]) for i, part in enumerate(parts)]).sum(0)
        case Gaussian(mean=mean, log_std=log_std):
            return _gaussian_log_prob(mean, log_std, actions)
        case SquashedGaussian(mean=mean, log_std=log_std, scale=scale, shift=shift):
            squashed = ((actions - shift) / scale).clamp(-1 + 1e-6, 1 - 1e-6)
            raw = torch.atanh(squashed)
            return _gaussian_log_prob(mean, log_std, raw) - _log_slope(raw, scale)


def entropy(policy: Policy) -> Tensor:
    """Entropy in nats, [N]. A squashed Gaussian has no closed form: use `-log_prob` of samples there."""
    match policy:
        case Categorical(logits=logits):
            log_p = F.log_softmax(logits, -1)
            return -(log_p.exp() * log_p).sum(-1)
        case MultiCategorical(logits=logits, nvec=nvec):
            return torch.stack([entropy(Categorical(part)) for part in _parts(logits, nvec)]).sum(0)
        case Gaussian(mean=mean, log_std=log_std):
            return (log_std + (0.5 + HALF_LOG_2PI)).expand_as(mean).sum(-1)
    raise TypeError("a squashed Gaussian has no closed-form entropy; estimate it by -log_prob of samples")


def mode(policy: Policy) -> Tensor:
    """The most likely action (for a squashed Gaussian, the image of its mean)."""
    match policy:
        case Categorical(logits=logits):
            return logits.argmax(-1)
        case MultiCategorical(logits=logits, nvec=nvec):
            return torch.stack([part.argmax(-1) for part in _parts(logits, nvec)], -1)
        case Gaussian(mean=mean):
            return mean
        case SquashedGaussian(mean=mean, scale=scale, shift=shift):
            return torch.tanh(mean) * scale + shift


def sample(policy: Policy, noise: Tensor) -> Tensor:
    """An action as a pure function of noise: Gumbel noise for choices (its argmax is a sample), normal for numbers."""
    match policy:
        case Categorical(logits=logits):
            return (logits + noise).argmax(-1)
        case MultiCategorical(logits=logits, nvec=nvec):
            return mode(MultiCategorical(logits + noise, nvec))
        case Gaussian(mean=mean, log_std=log_std):
            return mean + log_std.exp() * noise
        case SquashedGaussian(mean=mean, log_std=log_std, scale=scale, shift=shift):
            return torch.tanh(mean + log_std.exp() * noise) * scale + shift


def sample_with_log_prob(policy: SquashedGaussian, noise: Tensor) -> tuple[Tensor, Tensor]:
    """An action and its log-density [N], both with gradients; cheaper and more exact than `sample`, then `log_prob`.

    The density is that of the action scaled to [-1, 1], so it does not depend on the environment's units.
    """
    mean, log_std, scale, shift = policy
    raw = mean + log_std.exp() * noise
    log_slope = 2.0 * (log(2.0) - raw - F.softplus(-2.0 * raw))
    log_probs = (-0.5 * noise.square() - log_std - HALF_LOG_2PI - log_slope).sum(-1)
    return torch.tanh(raw) * scale + shift, log_probs


def policy_change(minibatches: list[tuple[Tensor, Tensor | None]], clip: float) -> Metrics:
    """KL from the old policy and share of clipped rows, of the log-ratios and weights of many minibatches at once:
    beside the loss of a small network every operation counts, and these were 4 % of an update."""
    log_ratio_N = torch.cat([log_ratios.flatten() for log_ratios, _ in minibatches])
    weights = [weights.flatten() for _, weights in minibatches if weights is not None]
    weights_N = torch.cat(weights) if weights else None
    ratio_N = log_ratio_N.exp()
    kl = weighted_mean(ratio_N - 1 - log_ratio_N, weights_N)  # Schulman's k3 estimator: never negative
    clipped_N = ratio_N != ratio_N.clamp(1 - clip, 1 + clip)
    return {"kl": kl, "clip_fraction": weighted_mean(clipped_N.float(), weights_N)}


def _parts(logits: Tensor, nvec: tuple[int, ...]) -> tuple[Tensor, ...]:
    return torch.split(logits, list(nvec), -1)


def _gaussian_log_prob(mean: Tensor, log_std: Tensor, x: Tensor) -> Tensor:
    z = (x - mean) * torch.exp(-log_std)
    return (-0.5 * z.square() - log_std - HALF_LOG_2PI).sum(-1)


def _log_slope(raw: Tensor, scale: Tensor) -> Tensor:
    """log |d action / d raw| of tanh(raw) * scale, in the form that neither overflows nor cancels."""
    return (2.0 * (log(2.0) - raw - F.softplus(-2.0 * raw)) + torch.log(scale)).sum(-1)
