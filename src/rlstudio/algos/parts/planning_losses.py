"""Learning what plans are judged with: the value, and the value together with the dynamics.  Dims: H steps, N rows."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.algos.parts.dynamics import dynamics_loss
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics
from rlstudio.data.replay.windows import transitions
from rlstudio.models.planning.denoiser import DiffusionModel
from rlstudio.models.planning.value import LearnedValue
from rlstudio.ops.means import weighted_mean


def td_loss(value: LearnedValue, windows: Batch, weights_N: Tensor | None) -> tuple[Tensor, Tensor]:
    """Half the squared error of n-step transitions in units of the value's scale, and the targets R_n + gamma^n V(o_n)
    that it is an error against."""
    with torch.no_grad():
        targets_N = value.targets(windows)
    errors_N = value.units(windows.observations) - targets_N / value.scale
    return 0.5 * weighted_mean(errors_N.square(), weights_N), targets_N


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
