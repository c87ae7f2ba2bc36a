"""Planning as inference against the one case that has a closed form: a Gaussian prior and a quadratic return.

p0 = N(0, I)    R = -(tau - b)' Q (tau - b) / 2    =>    p* = N(S beta Q b, S)    S = (I + beta Q)^-1
"""

from __future__ import annotations

from math import log

import pytest
import torch
from torch import Tensor

from rlstudio.planners.posterior import best, beta_for, log_z, posterior

SAMPLES = 200_000
Q = torch.tensor([[2.0, 0.6, 0.0], [0.6, 1.0, -0.2], [0.0, -0.2, 0.5]], dtype=torch.float64)
B = torch.tensor([0.8, -0.5, 0.3], dtype=torch.float64)
EYE = torch.eye(3, dtype=torch.float64)


def drawn(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Samples of the prior [K, 3] and their returns [1, K]."""
    samples = torch.randn(SAMPLES, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return samples, -0.5 * torch.einsum("ki,ij,kj->k", samples - B, Q, samples - B)[None]


def exact(beta: float) -> tuple[Tensor, Tensor, float, float, float]:
    """Mean and covariance of p*, E[R], KL(p* || p0) and log Z."""
    cov = torch.linalg.inv(EYE + beta * Q)
    mean = cov @ (beta * Q @ B)
    expected = -0.5 * (torch.trace(Q @ cov) + (mean - B) @ Q @ (mean - B))
    kl = 0.5 * (torch.trace(cov) + mean @ mean - 3 - torch.logdet(cov))
    return mean, cov, float(expected), float(kl), float(beta * expected - kl)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 3.0])
def test_the_weighted_samples_are_the_exact_posterior(beta: float) -> None:
    samples, returns = drawn()
    q = posterior(returns, torch.tensor([beta], dtype=torch.float64))
    mean, cov, expected, kl, evidence = exact(beta)
    error = 4.0 / float(q.effective_samples) ** 0.5  # standard errors of numbers of order one
    found = q.weights[0] @ samples
    centred = samples - found
    torch.testing.assert_close(found, mean, atol=error, rtol=0)
    torch.testing.assert_close(torch.einsum("k,ki,kj->ij", q.weights[0], centred, centred), cov, atol=error, rtol=0)
    assert float(q.expected_return) == pytest.approx(expected, abs=2 * error)
    assert float(q.kl) == pytest.approx(kl, abs=2 * error)
    assert float(log_z(returns, torch.tensor([beta]).double())) == pytest.approx(evidence, abs=error)


def test_no_other_weights_reach_the_evidence() -> None:
    """beta E_q[R] - KL(q || p0) = log Z for the posterior, and is less for any other beta."""
    _, returns = drawn()
    wanted = log_z(returns, torch.tensor([1.0]).double())
    reached = [
        float(q.expected_return - q.kl)
        for beta in (0.5, 1.0, 2.0)
        for q in [posterior(returns, torch.tensor([beta]).double())]
    ]
    assert reached[1] == pytest.approx(float(wanted))
    assert max(reached[0], reached[2]) < reached[1] - 0.01


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_budget_finds_its_beta_in_every_environment(scale: float) -> None:
    returns = drawn()[1][0, :6400].view(4, 1600) * scale * torch.tensor([[1.0], [2.0], [0.1], [7.0]]).double()
    for budget in (0.1, 1.0, 3.0):
        beta = beta_for(returns, budget)
        torch.testing.assert_close(posterior(returns, beta).kl, torch.full((4,), budget).double(), atol=1e-3, rtol=0)
    alone = torch.cat([beta_for(row[None], 1.0) for row in returns])
    torch.testing.assert_close(beta_for(returns, 1.0), alone)


def test_a_budget_of_an_exact_posterior_gives_its_beta_back() -> None:
    _, returns = drawn()
    assert float(beta_for(returns, exact(1.0)[3])) == pytest.approx(1.0, rel=0.03)


def test_the_best_is_where_beta_leads() -> None:
    returns = torch.tensor([[1.0, 4.0, 2.0, 3.9], [0.0, -1.0, -2.0, -3.0]])
    cold, q = posterior(returns, torch.tensor([1e4, 1e4])), best(returns)
    torch.testing.assert_close(q.weights, torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0]]))
    torch.testing.assert_close(cold.weights, q.weights)
    torch.testing.assert_close(q.expected_return, torch.tensor([4.0, 0.0]))
    torch.testing.assert_close(q.kl, torch.full((2,), log(4)))
    torch.testing.assert_close(q.effective_samples, torch.ones(2))


def test_a_return_that_is_no_number_counts_for_nothing() -> None:
    returns = torch.tensor([[1.0, -torch.inf, 2.0], [torch.nan, 3.0, torch.inf], [-torch.inf] * 3])
    for q in (posterior(returns, torch.tensor([0.5, 0.5, 0.5])), posterior(returns, beta_for(returns, 0.2))):
        assert q.weights[0, 1] == 0
        torch.testing.assert_close(q.weights[1], torch.tensor([0.0, 1.0, 0.0]))
        torch.testing.assert_close(q.weights[2], torch.full((3,), 1 / 3))
        torch.testing.assert_close(q.weights.sum(1), torch.ones(3))
        assert torch.isfinite(q.expected_return[:2]).all()
    assert torch.isfinite(log_z(returns, torch.ones(3))[:2]).all()


def test_equal_returns_leave_the_prior_alone() -> None:
    returns = torch.full((2, 50), -3.0)
    q = posterior(returns, beta_for(returns, 1.0))
    torch.testing.assert_close(q.effective_samples, torch.full((2,), 50.0))
    torch.testing.assert_close(q.kl, torch.zeros(2), atol=1e-5, rtol=0)
