"""A `State` as JSON plus arrays plus segments, and back.

Leaves that JSON cannot hold exactly become one-key objects: `{"$tensor": name}`, `{"$segment": index}`,
`{"$float": "nan"}`, `{"$tuple": [...]}`, and `{"$dict": {...}}` around a dict that has a `$` key of its own. A tensor's
name is its path (parts joined by `/`, escaped as in JSON pointers). Torch tensors are known by their methods, so
nothing here imports torch; they come back as NumPy arrays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from rlstudio.core.contracts import Segment, State
from rlstudio.core.errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

_MARKS = ("$tensor", "$segment", "$float", "$tuple", "$dict")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


T = TypeVar("T")


class Tree(NamedTuple):
    json: object
    tensors: dict[str, np.ndarray]
    segments: list[Segment]


def flatten(state: Mapping[str, object]) -> Tree:
    """Take a state apart. A value that a checkpoint cannot hold is an error that names its path."""
    tree = Tree({}, {}, [])
    return tree._replace(json=_encode(state, "", tree))


def plain(value: Mapping[str, object], what: str) -> object:
    """The JSON of a state that may hold no tensors and no segments."""
    tree = flatten(value)
    if tree.tensors or tree.segments:
        raise TypeError(f"{what}: holds tensors or segments; only JSON values belong here")
    return tree.json


def rebuild(tree: Tree, label: str) -> State:
    """The state of a tree; `label` names its file in an error message."""
    used: set[str] = set()
    try:
        value = _as(dict, _decode(tree.json, tree, used))
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: not a state: {type(error).__name__} {error}") from error
    if unused := sorted(set(tree.tensors) - used):
        raise CheckpointError(f"{label}: the tensor {unused[0]!r} is not used by the state")
    return value


def to_bytes(value: object) -> bytes:
    """Canonical JSON: the same value gives the same bytes, and finite floats come back to the bit."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _encode(value: object, path: str, tree: Tree) -> object:
    if hasattr(value, "__array_interface__"):
        return _tensor(_as_array(value), path, tree)
    if value is None or isinstance(value, bool | int | float | str):
        return value if not isinstance(value, float) or math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Segment):
        tree.segments.append(value)
        return {"$segment": len(tree.segments) - 1}
    if isinstance(value, Mapping):
        return _encode_dict(value, path, tree)
    if isinstance(value, list | tuple):
        entries = [_encode(entry, f"{path}/{index}", tree) for index, entry in enumerate(value)]
        return {"$tuple": entries} if isinstance(value, tuple) else entries
    if hasattr(value, "detach"):
        return _tensor(_from_torch(cast("Tensor", value), path), path, tree)
    raise TypeError(
        f"{path[1:]}: a {type(value).__name__} cannot be stored in a checkpoint; "
        "use tensors, arrays, Segments or plain JSON values"
    )


def _as_array(value: object) -> np.ndarray:
    import numpy as np  # imported only to write arrays; `rlctl show` reads manifests without it

    return np.asarray(value)


def _from_torch(value: Tensor, path: str) -> np.ndarray:
    try:
        return _as_array(value.detach().cpu().numpy())
    except TypeError as error:  # a dtype NumPy does not have
        raise TypeError(f"{path[1:]}: {value.dtype} cannot be stored in a checkpoint; convert it first") from error


def _encode_dict(value: Mapping[object, object], path: str, tree: Tree) -> object:
    encoded: dict[str, object] = {}
    for key in sorted(value, key=str):
        if not isinstance(key, str):
            raise TypeError(f"{path[1:]}: the key {key!r} is not text; a checkpoint's dicts have text keys")
        encoded[key] = _encode(value[key], f"{path}/{key.replace('~', '~0').replace('/', '~1')}", tree)
    return {"$dict": encoded} if any(key.startswith("$") for key in encoded) else encoded


def _tensor(array: np.ndarray, path: str, tree: Tree) -> dict[str, str]:
    tree.tensors[path[1:]] = array
    return {"$tensor": path[1:]}


def _decode(value: object, tree: Tree, used: set[str]) -> object:
    if isinstance(value, list):
        return [_decode(entry, tree, used) for entry in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if len(value) == 1 and mark in _MARKS:
        return _decode_mark(mark, value[mark], tree, used)
    if any(key.startswith("$") for key in value):
        raise ValueError(f"unknown mark in {sorted(value)}")
    return {key: _decode(entry, tree, used) for key, entry in value.items()}


def _decode_mark(mark: str, held: object, tree: Tree, used: set[str]) -> object:
    def tensor() -> np.ndarray:
        name = _as(str, held)
        if name in used:
            raise ValueError(f"the tensor {name!r} is used twice")
        used.add(name)
        return tree.tensors[name]

    def segment() -> Segment:
        if type(held) is not int or held < 0:
            raise ValueError(f"{held!r} is no segment index")
        return tree.segments[held]

    decoders: dict[str, Callable[[], object]] = {
        "$tensor": tensor,
        "$segment": segment,
        "$float": lambda: _FLOATS[_as(str, held)],
        "$tuple": lambda: tuple(_decode(entry, tree, used) for entry in _as(list, held)),
        "$dict": lambda: {key: _decode(entry, tree, used) for key, entry in _as(dict, held).items()},
    }
    return decoders[mark]()


def _as(kind: type[T], held: object) -> T:
    if not isinstance(held, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(held).__name__}")
    return held
