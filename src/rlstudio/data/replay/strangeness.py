"""How strange the rows of one source are to those of the others: what happens after an action cannot be told from them.

    y = C phi(x) by least squares over rows of the others,   x = (observation, action),   y = (reward, o' - o, o)
    strangeness of y_k = q90 of |y_k - C_k phi(x)| over the source's rows
                         / max(2 * largest |residual| of the others, half of the range that y_k has with them)

phi are x, its products and 1. Where sources are in different places (one falls, one runs), they see other
observations but the same world, so what follows from x is compared, not what x is. x is cut to what the others have
been at, so nothing is extrapolated; that y holds o too makes rows strange that lie far outside.

Rewards in another unit can stay within that range where most of them are near 0, so their scale is asked for apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STRANGE = 1.0
"""From here on. 1,584 pairs of windows of six healthy environments reached 0.83 (docs/decisions/0090)."""

MOST_PRODUCTS = 8  # numbers of x of which every product is taken; of more only the squares
RIDGE = 1e-6


class Rows(NamedTuple):
    x: np.ndarray  # [N, D]
    y: np.ndarray  # [N, K]


class Scale(NamedTuple):
    times: float  # what is expected, by least squares through 0
    unexplained: float  # share of the sizes that this factor leaves


class Expectation:
    """What the rows of the others say follows from where one stands."""

    def __init__(self, others: Rows) -> None:
        low, high = others.x.min(0), others.x.max(0)
        self._middle, self._half = (low + high) / 2, (high - low) / 2 + 1e-9
        terms = self._terms(others.x)
        gram = terms.T @ terms
        gram[np.diag_indices(len(gram))] += RIDGE * len(terms)
        self._coefficients = np.linalg.solve(gram, terms.T @ others.y)
        residual = np.abs(others.y - terms @ self._coefficients).max(0)
        spread, size = others.y.max(0) - others.y.min(0), np.abs(others.y).max(0)
        # A y that never changes has no range: a thousandth of its size is what rounding may be.
        self._usual = np.maximum.reduce([2 * residual, spread / 2, 1e-3 * size + 1e-9])

    def strangeness(self, rows: Rows) -> np.ndarray:
        """Of each y, [K]."""
        residuals = np.abs(rows.y - self._terms(rows.x) @ self._coefficients)
        return np.asarray(np.quantile(residuals, 0.9, axis=0) / self._usual)

    def scale(self, rows: Rows) -> Scale:
        """How the rewards relate to those that the others' rows say."""
        given, expected = rows.y[:, 0], self._terms(rows.x) @ self._coefficients[:, 0]
        times = float(given @ expected / max(float(expected @ expected), 1e-12))
        left = np.abs(given - times * expected).sum() / max(float(np.abs(given).sum()), 1e-12)
        return Scale(times, float(left))

    def _terms(self, x: np.ndarray) -> np.ndarray:
        x = np.clip((x - self._middle) / self._half, -1.0, 1.0)
        if x.shape[1] <= MOST_PRODUCTS:
            first, second = np.triu_indices(x.shape[1])
            products = x[:, first] * x[:, second]
        else:
            products = x * x
        return np.concatenate([np.ones((len(x), 1)), x, products], 1)


def repeated_share(window: np.ndarray, before: np.ndarray) -> float:
    """The share of these rows [N, F] that equal, to the last bit, a row of `before` or an earlier one of their own."""
    rows = np.ascontiguousarray(np.concatenate([before, window]))
    records = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    first = np.unique(records, return_index=True)[1]
    return 1.0 - float((first >= len(before)).sum()) / len(window)
