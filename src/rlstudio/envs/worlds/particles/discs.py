"""Discs on a plane that push each other: the physics of MPE2's particle worlds.

    x' = x + v dt        v' = (1 - damping) v + (u + sum of contacts) dt, at most as fast as the disc can be
    contact of two discs: stiffness * margin * softplus((reach - distance) / margin), along the line between them

All masses are 1. Dims: M discs that move, E of all (those that move first), 2 numbers of a place.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.core.contracts.arrays import AnyArray, Namespace
from rlstudio.envs.worlds.kernel import one_hot

DT, DAMPING = 0.1, 0.25
STIFFNESS, MARGIN = 100.0, 1e-3
MOVES = 5
"""Choices of a disc that moves: stay, left, right, down, up."""


def points(states: AnyArray, start: int, count: int, xp: Namespace) -> AnyArray:
    """`count` pairs of numbers of the states as [..., count, 2]."""
    return xp.stack(tuple(states[..., at : at + 2] for at in range(start, start + 2 * count, 2)), -2)


def rows(places: AnyArray, xp: Namespace) -> AnyArray:
    """[..., count, 2] as numbers of a state again."""
    return xp.concatenate(tuple(places[..., number, :] for number in range(places.shape[-2])), -1)


def push(actions: AnyArray, xp: Namespace) -> AnyArray:
    """Choices [..., M] as directions [..., M, 2]."""
    right = (actions == 2) * 1.0 - (actions == 1) * 1.0
    up = (actions == 4) * 1.0 - (actions == 3) * 1.0
    return xp.stack((right, up), -1)


def moved(
    places: AnyArray, speeds: AnyArray, forces: AnyArray, xp: Namespace, top_speeds: Sequence[float] | None = None
) -> tuple[AnyArray, AnyArray]:
    """Places and speeds [..., M, 2] one step later."""
    faster = speeds * (1.0 - DAMPING) + forces * DT
    if top_speeds is not None:
        top = each(top_speeds, faster, xp)
        speed = xp.sqrt(xp.sum(faster * faster, -1))
        faster = faster * xp.where(speed > top, top / (speed + (speed == 0.0)), 1.0)[..., None]
    return places + speeds * DT, faster


def contacts(places: AnyArray, sizes: Sequence[float], movers: int, xp: Namespace) -> AnyArray:
    """What pushes the first `movers` of the discs [..., E, 2]: forces [..., M, 2]."""
    apart = places[..., :movers, None, :] - places[..., None, :, :]
    away = distances(apart, xp)
    itself = _diagonal(movers, len(sizes), places, xp)
    radius = each(sizes, places, xp)
    over = (radius[..., :movers, None] + radius[..., None, :] - away) / MARGIN
    depth = MARGIN * (xp.clip(over, 0.0, float("inf")) + xp.log1p(xp.exp(-abs(over))))
    strength = STIFFNESS * depth * (1.0 - itself) / (away + itself)
    return xp.sum(apart * strength[..., None], -2)


def distances(apart: AnyArray, xp: Namespace) -> AnyArray:
    """Lengths of the last axis."""
    return xp.sqrt(xp.sum(apart * apart, -1))


def touching(places: AnyArray, sizes: Sequence[float], xp: Namespace) -> AnyArray:
    """Which pairs of discs overlap: 1 or 0 [..., E, E], none with itself."""
    away = distances(places[..., :, None, :] - places[..., None, :, :], xp)
    radius = each(sizes, places, xp)
    return (away < radius[..., :, None] + radius[..., None, :]) * (1.0 - _diagonal(len(sizes), len(sizes), places, xp))


def each(values: Sequence[float], places: AnyArray, xp: Namespace) -> AnyArray:
    """A number for each disc [..., E], of the precision of the places."""
    zero = xp.zeros_like(places[..., 0, 0])
    return xp.stack(tuple(zero + value for value in values), -1)


def _diagonal(height: int, width: int, like: AnyArray, xp: Namespace) -> AnyArray:
    return one_hot(xp.arange(height, device=like.device), width, xp)
