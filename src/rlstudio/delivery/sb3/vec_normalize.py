"""The running statistics of a `VecNormalize` of Stable-Baselines3, without executing the pickle that holds them.

`VecNormalize.save` pickles the whole wrapper. Here every object of it is only a name with what it was made from and its
attributes (see `pickle_reader`); of those, six numbers and two sets of moments are read. Names outside of
Stable-Baselines3, Gymnasium's spaces and NumPy end the reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlstudio.core.errors import Incompatible
from rlstudio.delivery.sb3.pickle_reader import Name, PickleReader
from rlstudio.delivery.sb3.zip_archive import BadArchive, read_archive

WRAPPER = "stable_baselines3.common.vec_env.vec_normalize VecNormalize"
MOMENTS = "stable_baselines3.common.running_mean_std RunningMeanStd"
PACKAGES = ("stable_baselines3.", "gymnasium.spaces.", "gym.spaces.", "numpy", "collections ")
MAX_NUMBERS = 1 << 20
DTYPES = {"f8": "<f8", "f4": "<f4"}
CLIP = 10.0
"""What the normalizer of our Models clips to."""


@dataclass
class _Object:
    """Something that the file makes by calling a name: what it was called with, and its attributes."""

    made_by: str
    arguments: object
    state: object = None
    items: list[object] = field(default_factory=list)


@dataclass(frozen=True)
class RunningMoments:
    """Of a stream of rows."""

    mean: np.ndarray
    variance: np.ndarray
    count: float


class VecNormalizeStatistics(NamedTuple):
    observations: RunningMoments | None  # None: they were not normalized
    returns: RunningMoments | None  # None: rewards were not scaled
    epsilon: float  # added to a variance


def read_vec_normalize(path: Path) -> VecNormalizeStatistics:
    """What `VecNormalize.save` wrote. Anything else is refused by its file and field."""
    reader = _WrapperReader(str(path))
    wrapper = reader.read(read_archive(path))
    if not isinstance(wrapper, _Object) or wrapper.made_by != WRAPPER or not isinstance(wrapper.state, dict):
        raise BadArchive(f"{path}: is not a file of VecNormalize.save; give the one that was saved beside the model")
    state, label = wrapper.state, str(path)
    clips = _flag(state, "norm_obs", label)
    if clips and _number(state, "clip_obs", label) != CLIP:
        raise Incompatible(
            f"{path}: clip_obs: is {_number(state, 'clip_obs', label):g}, the normalizer here clips to {CLIP:g};"
            " train it with clip_obs=10"
        )
    return VecNormalizeStatistics(
        observations=_moments(state, "obs_rms", label) if clips else None,
        returns=_moments(state, "ret_rms", label) if _flag(state, "norm_reward", label) else None,
        epsilon=_number(state, "epsilon", label),
    )


def _flag(state: dict[str, object], name: str, label: str) -> bool:
    value = state.get(name)
    if not isinstance(value, bool):
        raise BadArchive(f"{label}: {name}: is not true or false; save the statistics again")
    return value


def _number(state: dict[str, object], name: str, label: str) -> float:
    value = state.get(name)
    number = float(value) if isinstance(value, int | float) else float(_array(value, f"{label}: {name}").reshape(()))
    if not math.isfinite(number) or number < 0:
        raise BadArchive(f"{label}: {name}: is {number}, which is no such setting; save the statistics again")
    return number


def _moments(state: dict[str, object], name: str, label: str) -> RunningMoments:
    held = state.get(name)
    if isinstance(held, dict):
        raise Incompatible(f"{label}: {name}: statistics of a dict of observations cannot be imported, only of a Box")
    if not isinstance(held, _Object) or held.made_by != MOMENTS or not isinstance(held.state, dict):
        raise BadArchive(f"{label}: {name}: holds no running statistics; save them again")
    mean, variance = (_array(held.state.get(part), f"{label}: {name}.{part}") for part in ("mean", "var"))
    count = _number(held.state, "count", f"{label}: {name}")
    sane = np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all() and count > 0
    if mean.shape != variance.shape or not sane:
        raise BadArchive(f"{label}: {name}: its moments are not finite or do not fit each other; save them again")
    return RunningMoments(mean, variance, count)


def _array(value: object, label: str) -> np.ndarray:
    """A NumPy array or scalar of floats, from the bytes it was pickled as."""
    match value:
        case bool():
            pass
        case int() | float():
            return np.asarray(float(value))
        case _Object(made_by, (_Object() as dtype, bytes(raw))) if made_by.endswith(" scalar"):
            return _from_bytes(raw, dtype, (), label)
        case _Object(made_by, _, (int(), tuple(shape), _Object() as dtype, bool(by_column), bytes(raw))) if (
            made_by.endswith(" _reconstruct") and not by_column
        ):
            return _from_bytes(raw, dtype, shape, label)
        case _Object(made_by, (bytes() | bytearray() as raw, _Object() as dtype, tuple(shape), "C")) if (
            made_by.endswith(" _frombuffer")
        ):
            return _from_bytes(bytes(raw), dtype, shape, label)
    raise BadArchive(f"{label}: is not an array of numbers; save the statistics again")


def _from_bytes(raw: bytes, dtype: _Object, shape: tuple[object, ...], label: str) -> np.ndarray:
    match dtype:
        case _Object("numpy dtype", (str(kind), *_), (int(), "<", *_)) if kind in DTYPES:
            sizes = [size for size in shape if type(size) is int and 0 < size <= MAX_NUMBERS]
            if len(sizes) == len(shape) and math.prod(sizes) * int(kind[1]) == len(raw):
                return np.frombuffer(raw, DTYPES[kind]).reshape(sizes).astype(np.float64)
    raise BadArchive(f"{label}: its bytes are not those of floats of its shape; save the statistics again")


class _WrapperReader(PickleReader):
    kind = "file of VecNormalize"
    newest_protocol = 5

    def knows(self, name: str) -> bool:
        return name.startswith(PACKAGES)

    def _stack_global(self, _: object) -> None:
        attribute, module = self.stack.pop(), self.stack.pop()
        self.name(f"{module} {attribute}")

    def _reduce(self, _: object) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        if not isinstance(called, Name):
            raise self.refusal("a call of something that is no name")
        self.stack.append(_Object(called.text, arguments))

    _newobj = _reduce

    def _build(self, _: object) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, _Object):
            raise self.refusal("attributes of something that was not made")
        target.state = state

    def _empty_list(self, _: object) -> None:
        self.stack.append([])

    def _append(self, _: object) -> None:
        self._extend([self.stack.pop()])

    def _appends(self, _: object) -> None:
        self._extend(self.since_mark())

    def _extend(self, values: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise self.refusal("entries of something else than a list")
        target += values

    def _bytes(self, value: object) -> None:
        self.stack.append(value)

    _short_binbytes = _binbytes = _binbytes8 = _bytearray8 = _bytes
