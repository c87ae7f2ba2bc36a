"""The state hash: one number that two runs share exactly when their whole state is the same, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np

from rlstudio.storage.safetensors_file import write_tensors
from rlstudio.storage.state_tree import Tree, flatten, to_bytes

SECTIONS = (
    "module_state",
    "trainer_state",
    "replay_meta",
    "rng_state",
)  # what the state hash covers; `meta` is outside


def state_hash(content: Mapping[str, object]) -> str:
    """One number for the whole state: every tensor's name, dtype, shape and bytes, every JSON value, every segment.

    It does not depend on when or how often checkpoints were taken, nor on how segments are named.
    """
    tree = state_tree_of(content)
    return hash_tree(tree, [_tensors_digest(segment.columns()) for segment in tree.segments])


def state_tree_of(content: Mapping[str, object]) -> Tree:
    expected = {*SECTIONS, "version", "meta"}
    if set(content) != expected:
        raise ValueError(f"a checkpoint's content has exactly {sorted(expected)}, got {sorted(content)}")
    return flatten({name: content[name] for name in SECTIONS})


def hash_tree(tree: Tree, segments: Sequence[str]) -> str:
    return combine(_tensors_digest(tree.tensors), sha256(to_bytes(tree.json)).hexdigest(), segments)


def combine(tensors: str, state: str, segments: Sequence[str]) -> str:
    """The state hash from the hashes of its files, which are pure functions of the state."""
    return sha256("\n".join((tensors, state, *segments)).encode()).hexdigest()


class _Hashing:
    """A tensor file that is only hashed."""

    def __init__(self) -> None:
        self.hash = sha256()

    def write(self, data: bytes | memoryview) -> None:
        self.hash.update(data)


def _tensors_digest(tensors: Mapping[str, np.ndarray]) -> str:
    sink = _Hashing()
    write_tensors(sink, tensors)
    return sink.hash.hexdigest()
