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


PAIR = 2
PRIMES, FACTORS = (4093, 4091), (1207, 1713)
"""For worlds that throw at every step: two generators whose sum repeats after 8 million throws (Wichmann & Hill 1982).
The factors are primitive roots, and factor times prime stays below 2^24."""


def first_pair(noise: AnyArray, xp: Namespace) -> AnyArray:
    """A pair [..., 2] from two uniform numbers per episode [..., 2]; never zero, where a generator would stay."""
    return xp.stack(tuple(xp.floor(noise[..., i] * (prime - 1)) + 1 for i, prime in enumerate(PRIMES)), -1)


def roll_pair(pair: AnyArray, xp: Namespace) -> AnyArray:
    return xp.stack(tuple(pair[..., i] * FACTORS[i] % prime for i, prime in enumerate(PRIMES)), -1)


def unit_of_pair(pair: AnyArray) -> AnyArray:
    """What the pair shows, in [0, 1)."""
    return (pair[..., 0] / PRIMES[0] + pair[..., 1] / PRIMES[1]) % 1.0
