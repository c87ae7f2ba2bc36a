"""Advantages, returns and errors. Row t is transition t: `terminated` stops the bootstrap, `dones` cuts the trace.

Dims: T steps, B environments. `next_values_TB[t]` is the value of the true successor of row t, so a time limit
bootstraps and a death does not, and no value leaks over a reset.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rlstudio.core.batch import Batch


class Estimates(NamedTuple):
    """How much better than expected each action did, and what the value should have been, both [T, B]."""

    advantages: Tensor
    returns: Tensor


def advantages(
    rollout: Batch, values_TB: Tensor, next_values_TB: Tensor, log_probs_TB: Tensor, gamma: float, lam: float
) -> Estimates:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

        delta_t = r_t + gamma V(s'_t) [not terminated] - V(s_t)        A_t = delta_t + gamma lambda [not done] A_{t+1}

    The trace stops at a row that does not count (the guard's zeros are no experience) and bootstraps there; it passes
    over rows without a transition (not `active`). Where older weights acted (`behaviour_log_probs`, beside the present
    `log_probs_TB`) the rows that follow are corrected as in `_vtrace`.
    """
    deltas_TB = rollout.rewards + gamma * next_values_TB * (~rollout.terminated).float() - values_TB
    cuts_TB = rollout.dones
    if rollout.weights is not None:
        bad_TB = rollout.weights == 0
        cuts_TB[:-1] |= (bad_TB & rollout.active if "active" in rollout else bad_TB)[1:]
    decay_TB = (gamma * lam) * (~cuts_TB).float()
    if "active" in rollout:
        deltas_TB = torch.where(rollout.active, deltas_TB, 0.0)
        decay_TB = torch.where(rollout.active, decay_TB, (~cuts_TB).float())
    if "behaviour_log_probs" in rollout:
        return _vtrace(rollout, values_TB, deltas_TB, decay_TB, log_probs_TB)
    advantages_TB = discounted_sums(deltas_TB, decay_TB)
    return Estimates(advantages_TB, advantages_TB + values_TB)


def _vtrace(rollout: Batch, values_TB: Tensor, deltas_TB: Tensor, decay_TB: Tensor, log_probs_TB: Tensor) -> Estimates:
    """V-trace with a trace decay lambda (Espeholt et al. 2018, arXiv:1802.01561); without age it is the above.

    y_t = rho_t (delta_t + gamma lambda y_{t+1})     rho_t = min(1, pi(a_t|s_t) / mu(a_t|s_t))     returns V + y
    A_t = delta_t + gamma lambda y_{t+1}             the loss weighs it by its own pi / mu
    """
    rho_TB = (log_probs_TB - rollout.behaviour_log_probs).exp().clamp(max=1.0)
    if "active" in rollout:
        rho_TB = torch.where(rollout.active, rho_TB, 1.0)
    corrected_TB = discounted_sums(rho_TB * deltas_TB, rho_TB * decay_TB)
    following_TB = torch.cat((corrected_TB[1:], torch.zeros_like(corrected_TB[:1])))
    return Estimates(deltas_TB + decay_TB * following_TB, values_TB + corrected_TB)


def discounted_sums(x_TB: Tensor, decay_TB: Tensor) -> Tensor:
    """y_t = x_t + decay_t y_{t+1}, from the last row backwards."""
    if x_TB.device.type == "cpu":
        # The recurrence is sequential: T tiny steps, where NumPy's call is several times cheaper than torch's.
        out, decay = x_TB.detach().numpy().copy(), decay_TB.detach().numpy()
        for t in range(len(out) - 2, -1, -1):
            out[t] += decay[t] * out[t + 1]
        return torch.from_numpy(out)
    rows = [x_TB[-1]]
    for t in range(x_TB.shape[0] - 2, -1, -1):
        rows.append(x_TB[t] + decay_TB[t] * rows[-1])
    return torch.stack(rows[::-1])


def n_step(rewards_KN: Tensor, dones_KN: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """Collapse windows of K consecutive transitions into one, stopping at the end of an episode.

    Returns the discounted reward sum [N], the index of the window's last live row [N], and the discount gamma^k that
    belongs to the successor of that row [N].
    """
    live_KN = torch.ones_like(rewards_KN)
    live_KN[1:] = torch.cumprod(1.0 - dones_KN[:-1].float(), 0)
    steps = torch.arange(rewards_KN.shape[0], dtype=rewards_KN.dtype, device=rewards_KN.device)
    discounts_K = gamma**steps
    sums_N = (discounts_K[:, None] * live_KN * rewards_KN).sum(0)
    last_N = live_KN.sum(0).long() - 1
    return sums_N, last_N, gamma ** (last_N + 1).to(rewards_KN.dtype)


def value_errors(values_N: Tensor, returns_N: Tensor, old_values_N: Tensor, clip: float | None) -> Tensor:
    """(V - R)^2; with `clip`, the larger of it and the same for V kept within `clip` of the old value.

    Like PPO's clipped ratio: a value that already moved far towards its return in this rollout gets no more push.
    """
    errors_N = (values_N - returns_N).square()
    if clip is None:
        return errors_N
    near_N = old_values_N + (values_N - old_values_N).clamp(-clip, clip)
    return torch.maximum(errors_N, (near_N - returns_N).square())
