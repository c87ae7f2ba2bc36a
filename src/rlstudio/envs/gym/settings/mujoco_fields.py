"""Fields of a MuJoCo model by their address: `body_mass[torso]`, `geom_friction[floor,0]`, `dof_damping`,
`opt.gravity[2]`. An index is a number or the name of the body, geom, joint, site or actuator."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np

from rlstudio.core.errors import ConfigError, suggest
from rlstudio.envs.params.parameters import Parameter

ADDRESS = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\[([^\[\]]+)\])?")
OBJECTS = {"body": "body", "geom": "geom", "jnt": "joint", "dof": "joint", "site": "site", "actuator": "actuator"}
"""The first part of a field's name -> whose names its rows have."""


class MujocoField:
    """`own` is the model's number when it was made; None where the address means several numbers."""

    def __init__(self, env: gymnasium.Env, parameter: Parameter, env_id: str) -> None:
        model: Any = getattr(env, "model", None)
        if model is None or not hasattr(model, "body_mass"):
            raise ConfigError(f"env.params: {env_id} is no MuJoCo env, so it has no mujoco:{parameter.address}")
        match = ADDRESS.fullmatch(parameter.address)
        holder = model
        if match:
            *way, name = match[1].split(".")
            for part in way:
                holder = getattr(holder, part, None)
        field = getattr(holder, name, None) if match else None
        if match is None or not isinstance(field, np.ndarray | float | int):
            fields = [each for each in dir(holder) if isinstance(getattr(holder, each, None), np.ndarray)]
            near = suggest(name, fields) if match else ""
            raise ConfigError(
                f"env.params: the model of {env_id} has no field {parameter.address!r}{near or ';'} for example"
                " body_mass[NAME], geom_friction[NAME,0], dof_damping[NAME] or opt.gravity[2]"
            )
        self._holder, self._name, self._field = holder, name, field
        self._index = _index(model, name, field, match[2], f"env.params: {parameter.address} of {env_id}")
        held = np.array(field if not isinstance(field, np.ndarray) else self._part(), np.float64)
        self._held = held
        self.own = float(held) if held.size == 1 and held.ndim == 0 else None

    def write(self, value: float, scale: bool) -> None:
        number = self._held * value if scale else value
        if not isinstance(self._field, np.ndarray):
            setattr(self._holder, self._name, float(number))
        else:
            self._field[self._index] = number

    def _part(self) -> np.ndarray:
        assert isinstance(self._field, np.ndarray)
        part: np.ndarray = self._field[self._index]
        return part


def _index(model: Any, name: str, field: object, text: str | None, place: str) -> tuple[int | slice, ...]:
    """Of an array's rows, and then of what is in a row."""
    if text is None:
        return (slice(None),) if isinstance(field, np.ndarray) else ()
    parts = text.split(",")
    if not isinstance(field, np.ndarray) or len(parts) > field.ndim:
        raise ConfigError(f"{place}: {name} has {np.ndim(np.asarray(field))} places for an index, not {len(parts)}")
    return tuple(
        _numbered(part.strip(), size, place)
        if part.strip().lstrip("-").isdecimal()
        else _named(model, name, part, place)
        for part, size in zip(parts, field.shape, strict=False)
    )


def _numbered(part: str, size: int, place: str) -> int:
    if not -size <= int(part) < size:
        raise ConfigError(f"{place}: {part} is not among the {size}, which are counted from 0")
    return int(part)


def _named(model: Any, field: str, part: str, place: str) -> int | slice:
    prefix, name = field.partition("_")[0], part.strip()
    kind = OBJECTS.get(prefix)
    names = [] if kind is None else _names(model, kind)
    if name not in names:
        near = suggest(name, names) or ";"
        raise ConfigError(f"{place}: there is no {kind or 'name'} {name!r}{near} known: {', '.join(names) or 'none'}")
    index = names.index(name)
    if prefix != "dof":
        return index
    first = int(model.jnt_dofadr[index])
    widths = {0: 6, 1: 3}  # of free and ball joints; hinge and slide have one
    return slice(first, first + width) if (width := widths.get(int(model.jnt_type[index]), 1)) > 1 else first


def _names(model: Any, kind: str) -> list[str]:
    count = {"body": model.nbody, "geom": model.ngeom, "joint": model.njnt, "site": model.nsite, "actuator": model.nu}
    return [str(getattr(model, kind)(index).name) for index in range(count[kind])]


def recompute(env: gymnasium.Env) -> None:
    """What MuJoCo derives from a model's fields when it compiles one: inverse weights, subtree masses and the like."""
    import mujoco

    holder: Any = env
    mujoco.mj_setConst(holder.model, holder.data)
