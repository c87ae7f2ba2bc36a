"""Choices as rows of zeros and a one, for worlds that show which of a few things is the case."""

from __future__ import annotations

from rlstudio.core.arrays import AnyArray, Namespace


def one_hot(indices: AnyArray, n: int, xp: Namespace) -> AnyArray:
    """Whole numbers [...] as rows [..., n]."""
    return (xp.arange(n, device=indices.device) == indices[..., None]) * 1.0
