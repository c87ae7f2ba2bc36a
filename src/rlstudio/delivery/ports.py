"""The inputs and outputs of a shipped policy: a pure function of the spaces and of what is carried. Free of torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from rlstudio.core.action_mask import choices
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Space, describe

OBSERVATIONS, ACTIONS, OUTPUTS, CARRY, AFTER = "observations", "actions", "outputs", "carry_", "_after"
NOISE = "noise"


class Port(NamedTuple):
    """One tensor; the batch axis comes before `shape`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    part: str = ""  # the entry of a dict observation, or what is carried

    @property
    def after(self) -> Port:
        """The output that belongs to an input which is carried."""
        return self._replace(name=self.name + AFTER)

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, "part": self.part}


def observation_ports(space: Space) -> tuple[Port, ...]:
    """A dict's entries keep their names, unless one is also the name of something else."""
    if not isinstance(space, Dict):
        return (Port(OBSERVATIONS, space.shape, space.dtype),)
    return tuple(Port(_own_name(name), entry.shape, entry.dtype, name) for name, entry in space.items())


def _own_name(entry: str) -> str:
    return f"observation_{entry}" if entry in (ACTIONS, OUTPUTS) or entry.startswith(CARRY) else entry


def carry_ports(carried: Mapping[str, tuple[int, ...]], whole: Collection[str] = ()) -> tuple[Port, ...]:
    """What is remembered, by its parts; an episode starts with zeros. The parts of `whole` are whole numbers."""
    return tuple(
        Port(CARRY + part, shape, "int64" if part in whole else "float32", part) for part, shape in carried.items()
    )


def action_port(space: Space) -> Port:
    if isinstance(space, Dict):
        raise Incompatible(f"no policy acts by {describe(space)}; flatten the actions")
    return Port(ACTIONS, space.shape, space.dtype)


def output_port(space: Space) -> Port:
    """Logits, values or means."""
    return Port(OUTPUTS, (space.size if isinstance(space, Box) else sum(choices(space) or ()),), "float32")
