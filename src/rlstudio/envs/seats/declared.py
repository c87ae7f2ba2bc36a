"""What a World of several agents says of them: their names, what each sees and does, and players for their seats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstudio.core.contracts import World
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Spaces, describe
from rlstudio.envs.seats.config import LEARNED, RANDOM


def wrong_agents(world: World[np.ndarray]) -> str | None:
    """The first thing that is wrong; None where all of it fits."""
    names = getattr(world, "agent_names", None)
    if names is not None:
        are_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
        if not are_names or not len(set(names)) == len(names) == world.agents:
            return f"`agent_names` is {names!r}, not {world.agents} different names"
    each = getattr(world, "agent_spaces", None)
    if each is not None:
        are_spaces = isinstance(each, tuple | list) and all(isinstance(spaces, Spaces) for spaces in each)
        if not are_spaces or len(each) != world.agents:
            return f"`agent_spaces` is not {world.agents} times Spaces(observation, action), one for each agent"
        for number, spaces in enumerate(each):
            for field in ("observation", "action"):
                whole, own = getattr(world.spaces, field), getattr(spaces, field)
                if not _has_room(whole, own):
                    return (
                        f"`spaces` has no room for agent {number}, whose {field} is {describe(own)}: it says"
                        f" {describe(whole)}"
                    )
    return _wrong_players(getattr(world, "players", {}))


def _wrong_players(players: object) -> str | None:
    if not isinstance(players, Mapping) or not all(map(callable, players.values())):
        return "`players` is no dict from names to functions that make a player from the world"
    for name in (RANDOM, *LEARNED):
        if name in players:
            return f"`players` has a {name!r}, which is the name of another opponent; rename it"
    return None


def _has_room(whole: Space, own: Space) -> bool:
    """Whether the numbers and choices of an agent have a place among those of all."""
    if isinstance(whole, Dict) and isinstance(own, Dict):
        entries = dict(whole.items())
        return all(name in entries and _has_room(entries[name], entry) for name, entry in own.items())
    if isinstance(whole, Box) and isinstance(own, Box):
        return _fits(own.shape, whole.shape) and len(own.shape) == len(whole.shape)
    if isinstance(whole, Discrete) and isinstance(own, Discrete):
        return own.n <= whole.n
    if isinstance(whole, MultiDiscrete) and isinstance(own, MultiDiscrete):
        return _fits(own.nvec, whole.nvec)
    return False


def _fits(few: tuple[int, ...], many: tuple[int, ...]) -> bool:
    return len(few) <= len(many) and all(one <= other for one, other in zip(few, many, strict=False))
