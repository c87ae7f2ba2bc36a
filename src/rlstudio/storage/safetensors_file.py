"""The safetensors layout, streamed: an 8-byte header length, a JSON header, then the raw little-endian arrays.

Written and read here rather than by the library, because the writer must hash, sync and pass the fault points, and the
reader must trust nothing: the header is fully validated before one array is allocated. The bytes are a pure function
of names and arrays. Arrays of wider elements come first, so each is aligned to its own element size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BufferedIOBase
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from rlstudio.core.errors import CheckpointError

MAX_HEADER = 100_000_000  # the library's own limit
LARGEST_EMPTY = 1 << 48
"""The sizes of an array but those that are 0, multiplied."""

_METADATA = "__metadata__"

DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class ByteSink(Protocol):
    def write(self, data: bytes | memoryview, /) -> object: ...


def write_tensors(sink: ByteSink, tensors: Mapping[str, np.ndarray]) -> None:
    """The whole file into `sink` (a `StreamWriter`, a hash, ...), one array at a time."""
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, dict[str, object]] = {}
    end = 0
    for name in order:
        array = tensors[name]
        begin, end = end, end + array.nbytes
        dtype = _NAMES.get(array.dtype.newbyteorder("<"))
        if dtype is None:
            raise TypeError(f"{name}: arrays of {array.dtype} cannot be stored; use numbers or bool")
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    sink.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = tensors[name]
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        if plain.size:
            sink.write(plain.reshape(-1).view(np.uint8).data)


def read_tensors(file: BufferedIOBase, label: str) -> dict[str, np.ndarray]:
    """Every array of the file, as a writable copy. `label` names the file in a refusal."""
    size = file.seek(0, 2)
    file.seek(0)
    if size < 8:
        raise CheckpointError(f"{label}: {size} bytes are too short for a tensor file")
    length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_HEADER, size - 8):
        raise CheckpointError(f"{label}: the header claims {length} bytes, the file has {size}")
    entries = _entries(file.read(length), size - 8 - length, label)
    tensors = {}
    for entry in entries:
        array = np.empty(entry.shape, entry.dtype)
        if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
            raise CheckpointError(f"{label}: the data of {entry.name!r} ends early")
        tensors[entry.name] = array
    return tensors


class _Entry(NamedTuple):
    begin: int
    end: int
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


def _entries(header: bytes, data_size: int, label: str) -> list[_Entry]:
    """The header's arrays in file order: each of a known dtype, sized as its shape says, no gap and no overlap."""
    try:
        fields = json.loads(header, object_pairs_hook=_no_duplicates)
        if not isinstance(fields, dict):
            raise ValueError("the header is not an object")
        entries = sorted(_entry(name, value) for name, value in fields.items() if name != _METADATA)
        _check_metadata(fields.get(_METADATA, {}))
        position = 0
        for entry in entries:
            if entry.begin != position:
                raise ValueError(f"{entry.name!r} starts at {entry.begin}, expected {position}")
            position = entry.end
        if position != data_size:
            raise ValueError(f"the header describes {position} bytes of data, the file has {data_size}")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: bad tensor header: {error}") from error
    return entries


def _entry(name: str, value: object) -> _Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} needs exactly dtype, shape and data_offsets")
    dtype = DTYPES.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None:
        raise ValueError(f"{name!r} has the unknown dtype {value['dtype']!r}")
    shape, offsets = _counts(name, value["shape"]), _counts(name, value["data_offsets"])
    if len(shape) > 32 or len(offsets) != 2 or offsets[1] - offsets[0] != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} has shape {list(shape)} and {dtype.name}, which do not fill {list(offsets)}")
    if prod(filter(None, shape)) > LARGEST_EMPTY:  # NumPy makes no array of it, although it has no byte
        raise ValueError(f"{name!r} has the impossible shape {list(shape)}")
    return _Entry(offsets[0], offsets[1], name, dtype, shape)


def _counts(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(n) is not int or n < 0 for n in value):
        raise ValueError(f"{name!r} needs lists of whole numbers, got {value!r}")
    return tuple(value)


def _check_metadata(value: object) -> None:
    if not isinstance(value, dict) or any(not isinstance(text, str) for text in value.values()):
        raise ValueError(f"{_METADATA} must map names to text")


def _no_duplicates(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{name!r} appears twice")
        fields[name] = value
    return fields
