"""Policies as plain tuples of tensors. No distribution objects: those cost more than the maths.

A policy for N rows is one of
    Categorical(logits [N, A])                      actions [N]
    MultiCategorical(logits [N, sum A_i], nvec)     actions [N, K]
    Gaussian(mean [N, D], log_std [N or 1, D])      actions [N, D]
    SquashedGaussian(mean, log_std, scale, shift)   actions [N, D] = tanh(u) * scale + shift,  u ~ N(mean, std)

Functions of policies are in `models/policies/distributions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Categorical(NamedTuple):
    """One choice: logits of each."""

    logits: Tensor


class MultiCategorical(NamedTuple):
    """Several choices at once: the logits of all parts one after the other, `nvec` of each part."""

    logits: Tensor
    nvec: tuple[int, ...]


class Gaussian(NamedTuple):
    """Numbers from a normal distribution, clipped to the bounds where they are taken."""

    mean: Tensor
    log_std: Tensor


class SquashedGaussian(NamedTuple):
    """Numbers within bounds: tanh of a normal one, scaled and shifted."""

    mean: Tensor
    log_std: Tensor
    scale: Tensor
    shift: Tensor


Policy = Categorical | MultiCategorical | Gaussian | SquashedGaussian

PlanValue = Callable[["Tensor"], "Tensor"]
"""observations [..., O] -> what is still to come, [...]"""

PlanPolicy = Callable[["Tensor"], Policy]
"""observations [..., O] -> a distribution over choices, or over numbers in the units of a plan: [-1, 1]"""
