"""Parameters that the agent sees: numbers behind those of a flat observation, or the entry `params` of a Dict. They
have no bounds, since a curriculum may move them."""

from __future__ import annotations

from math import inf

from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Box, Dict, Space, describe

ENTRY = "params"


def observed_space(space: Space, count: int, env_id: str) -> Space:
    """What is shown with `count` parameters more; ConfigError where they have no place."""
    if isinstance(space, Box) and space.dtype == "float32" and len(space.shape) == 1:
        low, high = (tuple(float(bound) for bound in side) for side in space.bounds())
        return Box((space.size + count,), "float32", low + (-inf,) * count, high + (inf,) * count)
    if isinstance(space, Dict) and all(name != ENTRY for name, _ in space.items()):
        entry = ENTRY, Box((count,), "float32", (-inf,) * count, (inf,) * count)
        return Dict(tuple(sorted((*space.items(), entry), key=lambda pair: pair[0])))
    raise ConfigError(
        f"env.params: {env_id} shows {describe(space)}, where no parameter can be observed; leave `observed` out, or"
        " use env.wrappers=[FlattenObservation]"
    )
