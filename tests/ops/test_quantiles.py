"""Quantile regression: the node that walks the pairs in pieces against plain autograd, and what its minimum means."""

import pytest
import torch

from rlstudio.ops import quantiles as module
from rlstudio.ops.quantiles import quantile_huber


def plain(quantiles_NQ: torch.Tensor, targets_NJ: torch.Tensor, kappa: float) -> torch.Tensor:
    taus = (torch.arange(quantiles_NQ.shape[1]) + 0.5) / quantiles_NQ.shape[1]
    u = targets_NJ[:, None, :] - quantiles_NQ[:, :, None]
    huber = torch.where(u.abs() <= kappa, 0.5 * u**2, kappa * (u.abs() - 0.5 * kappa))
    return ((taus[:, None] - (u < 0).to(u.dtype)).abs() * huber).mean(2).sum(1)


@pytest.mark.parametrize(("quantiles", "targets"), [(1, 1), (7, 7), (5, 9), (200, 200)])
@pytest.mark.parametrize("kappa", [1.0, 0.2, 5.0])
@pytest.mark.parametrize("pieces", [1, 2**17])
def test_loss_and_gradient_are_those_of_autograd(quantiles, targets, kappa, pieces, monkeypatch):
    monkeypatch.setattr(module, "CACHE", pieces)
    generator = torch.Generator().manual_seed(quantiles)
    theta = (2 * torch.randn(11, quantiles, generator=generator)).requires_grad_()
    goals = 2 * torch.randn(11, targets, generator=generator)
    weights = torch.rand(11, generator=generator)
    mine, theirs = quantile_huber(theta, goals, kappa), plain(theta, goals, kappa)
    assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-5)
    (grad,) = torch.autograd.grad((mine * weights).sum(), theta)
    (expected,) = torch.autograd.grad((theirs * weights).sum(), theta)
    assert torch.allclose(grad, expected, rtol=1e-4, atol=1e-6)


def test_its_minimum_is_at_the_quantiles_of_the_targets():
    """With a small kappa the gradient vanishes where a share tau of the targets lies below, and nowhere else."""
    goals = torch.arange(100.0)[None] / 100 + 0.005
    theta = torch.full((1, 4), 0.5, requires_grad=True)
    for _ in range(400):
        (slope,) = torch.autograd.grad(quantile_huber(theta, goals, kappa=1e-2).sum(), theta)
        theta = (theta - 5 * slope).detach().requires_grad_()
    assert torch.allclose(theta.detach(), torch.tensor([[0.125, 0.375, 0.625, 0.875]]), atol=0.01)


def test_targets_that_are_no_numbers_are_seen():
    theta = torch.zeros(2, 3, requires_grad=True)
    goals = torch.tensor([[0.0, 1.0, 2.0], [0.0, torch.nan, 2.0]])
    losses = quantile_huber(theta, goals)
    assert torch.isfinite(losses[0])
    assert torch.isnan(losses[1])
