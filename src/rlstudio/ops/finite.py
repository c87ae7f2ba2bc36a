"""Whether all numbers are finite, as cheaply as it can be asked."""

from __future__ import annotations

from math import isfinite

import numpy as np


def is_finite(flat: np.ndarray) -> bool:
    """Of floats [N]."""
    # The sum of squares is a number unless something is NaN, infinite or huge: one call for nearly all of them.
    with np.errstate(over="ignore", invalid="ignore"):
        return isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())
