"""Dice that live in a world's state, so that random worlds keep pure dynamics.

A linear congruential generator of period 4096: all its numbers are whole and below 2^24, hence exact in float32 and
float64, on NumPy and torch. Plenty for toys; only the leading digits are used.
"""

from __future__ import annotations

from rlstudio.core.contracts.arrays import AnyArray, Namespace

PERIOD, FACTOR, INCREMENT = 4096, 1229, 1


def first(noise: AnyArray, xp: Namespace) -> AnyArray:
    """Dice from one uniform number per episode."""
    return xp.floor(noise * PERIOD)


def roll(dice: AnyArray) -> AnyArray:
    """The dice of the next throw."""
    return (dice * FACTOR + INCREMENT) % PERIOD


def unit(dice: AnyArray) -> AnyArray:
    """What the dice show, in [0, 1)."""
    return dice / PERIOD
