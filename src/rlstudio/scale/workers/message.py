"""A State as one buffer of bytes, and back without a copy: what workers and the learner send each other.

    8 bytes: length of the header | header, JSON | arrays, each at a multiple of 64 bytes

The header has the State with marks in place of its arrays (`storage/state_tree.py`), and of each array name, dtype,
shape and place. Nothing is unpickled, so what a broken worker sends can be wrong but can run no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.storage.state_tree import Tree, flatten, rebuild, to_bytes

ALIGNED = 64
LENGTH = 8

Allocate = Callable[[int], np.ndarray]
"""So many bytes of memory, as uint8."""


def _new_bytes(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


def encode(state: State, allocate: Allocate = _new_bytes) -> np.ndarray:
    """The State in memory that `allocate` gives, uint8."""
    tree = flatten(state)
    places: list[tuple[str, str, list[int], int]] = []
    offset = 0
    for name, array in tree.tensors.items():
        places.append((name, array.dtype.str, list(array.shape), offset))
        offset += _aligned(array.nbytes)
    header = to_bytes({"state": tree.json, "arrays": places})
    first = _aligned(LENGTH + len(header))
    memory = allocate(first + offset)
    memory[:LENGTH] = np.frombuffer(len(header).to_bytes(LENGTH, "little"), np.uint8)
    memory[LENGTH : LENGTH + len(header)] = np.frombuffer(header, np.uint8)
    for (name, _, _, place), array in zip(places, tree.tensors.values(), strict=True):
        assert not array.dtype.hasobject, name
        into = memory[first + place : first + place + array.nbytes]
        into.view(array.dtype).reshape(array.shape)[...] = array
    return memory


def decode(memory: np.ndarray) -> State:
    """The State; its arrays are views of the memory."""
    length = int.from_bytes(memory[:LENGTH].tobytes(), "little")
    header = json.loads(memory[LENGTH : LENGTH + length].tobytes())
    first = _aligned(LENGTH + length)
    tensors = {}
    for name, dtype, shape, place in header["arrays"]:
        kind = np.dtype(dtype)
        if kind.hasobject:
            raise ValueError(f"the array {name!r} of a message has objects in it")
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        tensors[name] = memory[first + place : first + place + size].view(kind).reshape(shape)
    return rebuild(Tree(header["state"], tensors, []), "a message of a worker")


def copied(value: object) -> object:
    """A State whose arrays are its own: memory of messages is used again."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(inner) for inner in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
