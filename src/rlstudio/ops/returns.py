"""Advantages, returns and errors. Row t is transition t: `terminated` stops the bootstrap, `dones` cuts the trace.

Dims: T steps, B environments. `next_values_TB[t]` is the value of the true successor of row t, so a time limit
bootstraps and a death does not, and no value leaks over a reset.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.core.batch import Batch


def advantages(rollout: Batch, values_TB: Tensor, next_values_TB: Tensor, gamma: float, lam: float) -> Tensor:
    """GAE, [T, B]. `next_values_TB` is V at the true successor, so a time limit bootstraps and a death does not.

    The trace stops at a row that does not count (the guard's zeros are no experience) and bootstraps there.
    """
    cuts_TB = rollout.dones
    if rollout.weights is not None:
        cuts_TB[:-1] |= rollout.weights[1:] == 0
    return gae(rollout.rewards, values_TB, next_values_TB, rollout.terminated, cuts_TB, gamma, lam)


def gae(
    rewards_TB: Tensor,
    values_TB: Tensor,
    next_values_TB: Tensor,
    terminated_TB: Tensor,
    dones_TB: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

    delta_t = r_t + gamma V(s'_t) [not terminated] - V(s_t)        A_t = delta_t + gamma lambda [not done] A_{t+1}
    """
    deltas_TB = rewards_TB + gamma * next_values_TB * (~terminated_TB).float() - values_TB
    decay_TB = (gamma * lam) * (~dones_TB).float()
    return discounted_sums(deltas_TB, decay_TB)


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
