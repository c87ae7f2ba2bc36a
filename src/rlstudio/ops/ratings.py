"""Ratings of players from the games between them: Bradley-Terry by maximum likelihood, on Elo's scale.

    P(i beats j) = 1 / (1 + 10^((R_j - R_i) / 400))            a draw counts as half a win of each
    max_R  sum_ij S_ij log P(i beats j) + prior sum_i log sqrt(P(i beats 0) P(0 beats i))

The order of the games does not matter, unlike in a running Elo. The prior is `prior` drawn games of each player against
one that stands at zero: whoever won all games is then rated high and not infinitely high (Bradley & Terry 1952, Caron &
Doucet 2012). Intervals come from the Fisher information; draws tell more than half a win of each, so they are wide.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

ELO_PER_LOGIT = 400 / log(10)
DEVIATIONS = 1.96
"""Standard deviations to either side of a 95 % interval."""

ROUNDS, LARGEST_STEP = 200, 2.0
ROUNDING, CLOSE = 1e-12, 1e-20
"""What two likelihoods may differ by through rounding, relatively; and a gain below which the maximum is reached."""


class Ratings(NamedTuple):
    """Elo [n] of each player, and the ends of its 95 % interval."""

    elo: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bradley_terry(scores: np.ndarray, *, reference: int | None = None, prior: float = 1.0) -> Ratings:
    """`scores` [n, n]: games that the row won against the column, draws as half. The player `reference` stands at 0, or
    the mean of all. Without a prior every group of players must have won and lost against the others."""
    players = len(scores)
    logits, information = _most_likely(np.asarray(scores, float), prior)
    weights = np.full(players, 1 / players) if reference is None else np.eye(players)[reference]
    relative = np.eye(players) - weights
    elo = ELO_PER_LOGIT * (relative @ logits)
    covariance = relative @ np.linalg.pinv(information, hermitian=True) @ relative.T
    reach = DEVIATIONS * ELO_PER_LOGIT * np.sqrt(np.diag(covariance).clip(min=0.0))
    return Ratings(elo, elo - reach, elo + reach)


def expected_score(elo: float, other: float) -> float:
    """The share of games that a player of the first rating is expected to win, draws as half."""
    return float(1 / (1 + 10 ** ((other - elo) / 400)))


def _most_likely(scores: np.ndarray, prior: float) -> tuple[np.ndarray, np.ndarray]:
    """Ratings in logits and their Fisher information, by Newton's method with steps that never make it less likely."""
    logits = np.zeros(len(scores))
    likelihood = _log_likelihood(scores, prior, logits)
    for _ in range(ROUNDS):
        gradient, information = _slopes(scores, prior, logits)
        step = np.linalg.pinv(information, hermitian=True) @ gradient
        if gradient @ step < CLOSE:
            break
        step *= min(1.0, LARGEST_STEP / np.abs(step).max())
        least = likelihood - ROUNDING * (1 + abs(likelihood))
        while (better := _log_likelihood(scores, prior, logits + step)) < least:
            step /= 2
        logits, likelihood = logits + step, better
    return logits, _slopes(scores, prior, logits)[1]


def _log_likelihood(scores: np.ndarray, prior: float, logits: np.ndarray) -> float:
    games = -scores * np.logaddexp(0.0, logits[None] - logits[:, None])
    against_zero = -0.5 * prior * (np.logaddexp(0.0, logits) + np.logaddexp(0.0, -logits))
    return float(games.sum() + against_zero.sum())


def _slopes(scores: np.ndarray, prior: float, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient [n] and Fisher information [n, n] of the log-likelihood."""
    games = scores + scores.T
    wins = _sigmoid(logits[:, None] - logits[None])
    beats_zero = _sigmoid(logits)
    gradient = (scores - games * wins).sum(1) + prior * (0.5 - beats_zero)
    curvature = games * wins * (1 - wins)
    np.fill_diagonal(curvature, 0.0)
    information = np.diag(curvature.sum(1) + prior * beats_zero * (1 - beats_zero)) - curvature
    return gradient, information


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
