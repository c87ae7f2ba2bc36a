"""Halton: settings spread evenly over the space, whatever the others came to (Halton 1960)."""

from pydantic import NonNegativeInt

from rlstudio.control.sweep.config import SamplerConfig

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


class HaltonConfig(SamplerConfig):
    skip: NonNegativeInt = 20
    """Points left out at the start, which lie on a line."""


class Halton:
    Config = HaltonConfig

    def __init__(self, cfg, space):
        self.cfg, self.space = cfg, space

    def choose(self, number, known):
        index = self.cfg.skip + self.cfg.seed + number + 1
        shares = (reversed_digits(index, base) for base in PRIMES)
        return self.space.at({axis.path: share for axis, share in zip(self.space.axes, shares, strict=False)})


def reversed_digits(number, base):
    """0.d0 d1 d2 ... in this base, of a number ... d2 d1 d0."""
    share, unit = 0.0, 1.0
    while number:
        unit /= base
        number, digit = divmod(number, base)
        share += digit * unit
    return share
