"""Learning what plans are made with: value, policy and dynamics, each by a loss of its own, weighed against each other.

    value  = E[ (V(o) - (sum_{k<n} gamma^k r_k + gamma^n V(o_n)))^2 ] / (2 scale^2)
    policy = E[ -w log pi(a|o) ]      w = 1 where the planner chose a (cloning)  or  exp(A / tau) (advantage)

Advantage weights: Peng et al. 2019, arXiv:1910.00177. Dims: H steps, N rows.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor

from rlstudio.algos.parts.dynamics import dynamics_loss
from rlstudio.core.batch import Batch
from rlstudio.core.config import Config
from rlstudio.core.contracts import Group, Metrics
from rlstudio.data.replay.windows import transitions
from rlstudio.models.planning.denoiser import DiffusionModel
from rlstudio.models.planning.experience import PlanningModel
from rlstudio.models.planning.value import LearnedValue
from rlstudio.models.policies.distributions import log_prob
from rlstudio.ops.group import ALONE
from rlstudio.ops.means import standardize, weighted_mean

LARGEST_WEIGHT = 20.0
"""Bound of exp(A / tau): a single lucky row must not be all that is learned."""


class JointLossConfig(Config):
    policy_loss: Literal["cloning", "advantage"] = "cloning"
    """`cloning`: imitate the planner's actions; `advantage`: imitate all actions, weighted by how much better than
    expected they went."""

    advantage_tau: PositiveFloat = 1.0
    """Standard deviations of advantage that make an action e times as important (advantage)."""

    dynamics_coef: NonNegativeFloat = 1.0
    """Weight of the dynamics loss; 0: the dynamics do not learn. The parts share no weights and Adam evens out the
    scale of their losses, so other values only matter together with `max_grad_norm`."""

    value_coef: NonNegativeFloat = 1.0
    """Weight of the value's loss, as above."""

    policy_coef: NonNegativeFloat = 1.0
    """Weight of the policy's loss, as above."""


def td_loss(value: LearnedValue, windows: Batch, weights_N: Tensor | None) -> tuple[Tensor, Tensor]:
    """Half the squared error of n-step transitions in units of the value's scale, and the targets R_n + gamma^n V(o_n)
    that it is an error against."""
    with torch.no_grad():
        targets_N = value.targets(windows)
    errors_N = value.units(windows.observations) - targets_N / value.scale
    return 0.5 * weighted_mean(errors_N.square(), weights_N), targets_N


def imitation_loss(
    model: PlanningModel,
    windows: Batch,
    planned_N: Tensor,
    targets_N: Tensor,
    cfg: JointLossConfig,
    group: Group = ALONE,
) -> Tensor:
    """`windows` are n-step transitions with the weights `planned_N` where a planner acted; `targets_N` are what the
    value learns of them."""
    weights_N = planned_N
    if cfg.policy_loss == "advantage":
        advantages_N = targets_N - model.value.expected(windows.observations).detach()
        weights_N = advantage_weights(advantages_N, windows.weights, cfg.advantage_tau, group)
    log_probs_N = log_prob(model.policy(windows.observations), model.unit(windows.actions))
    return -weighted_mean(log_probs_N, weights_N)


def advantage_weights(advantages_N: Tensor, weights_N: Tensor | None, tau: float, group: Group = ALONE) -> Tensor:
    """exp(A / tau), with advantages in units of their spread."""
    scaled_N = torch.exp(standardize(advantages_N, weights_N, group) / tau).clamp(max=LARGEST_WEIGHT)
    return scaled_N if weights_N is None else scaled_N * weights_N


def judge_loss(model: DiffusionModel, batch: Batch, counts: Tensor | None, gamma: float) -> tuple[Tensor, Metrics]:
    """`batch` are windows [H, N]; `counts` the resamples of learned dynamics."""
    loss, metrics = torch.zeros((), device=batch.device), Metrics()
    if model.dynamics is not None and counts is not None:
        loss, metrics = dynamics_loss(model.dynamics, batch.flatten(), counts)
    if model.value is not None:
        windows = transitions(batch, gamma)
        part, _ = td_loss(model.value, windows, windows.weights)
        loss, metrics = loss + part, metrics | {"value_loss": part.detach(), "value_trust": model.value.trust}
    return loss, metrics
