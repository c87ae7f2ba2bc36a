"""The tensors of a file written by `torch.save`, without executing any of it.

Such a file is a zip with a pickle that describes the tensors and a raw file for each storage. The pickle is only looked
at (see `pickle_reader`): three names stand for things we know how to make ourselves, every other one ends the reading.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from rlstudio.delivery.sb3.pickle_reader import Name, PickleReader
from rlstudio.delivery.sb3.zip_archive import Archive, BadArchive

MAX_PICKLE = 4 << 20
MAX_STORAGE = 256 << 20

STORAGES: dict[str, np.dtype] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch DoubleStorage": np.dtype("<f8"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch LongStorage": np.dtype("<i8"),
    "torch IntStorage": np.dtype("<i4"),
    "torch ByteStorage": np.dtype("u1"),
    "torch BoolStorage": np.dtype("?"),
}
DICT, TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"


class _Storage(NamedTuple):
    dtype: np.dtype
    key: str
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]


def read_torch_archive(data: bytes, label: str) -> dict[str, np.ndarray]:
    """A flat state dict: name -> array. Anything else in the file is refused."""
    archive = Archive(data, label)
    pickles = [name for name in archive.names if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise BadArchive(f"{label}: is not a file of torch.save (one data.pkl expected)")
    prefix = pickles[0].removesuffix("data.pkl")
    order = f"{prefix}byteorder"
    if order in archive.names and archive.read(order, 64) != b"little":
        raise BadArchive(f"{label}: was written on a big-endian machine")
    state = _TensorReader(label).read(archive.read(pickles[0], MAX_PICKLE))
    if not isinstance(state, dict):
        raise BadArchive(f"{label}: holds a {type(state).__name__}, not named tensors")
    storages: dict[_Storage, np.ndarray] = {}
    tensors = {}
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, _Tensor):
            raise BadArchive(f"{label}: {name!a} is not a tensor")
        if value.storage not in storages:
            storages[value.storage] = _raw(archive, prefix, value.storage)
        end = value.offset + prod(value.shape)
        tensors[name] = storages[value.storage][value.offset : end].reshape(value.shape).copy()
    return tensors


def _raw(archive: Archive, prefix: str, storage: _Storage) -> np.ndarray:
    raw = archive.read(f"{prefix}data/{storage.key}", MAX_STORAGE)
    if len(raw) != storage.size * storage.dtype.itemsize:
        raise BadArchive(f"{archive.label}: data/{storage.key} has {len(raw)} bytes, not as many as it says")
    return np.frombuffer(raw, storage.dtype)


class _TensorReader(PickleReader):
    kind = "file of plain tensors"

    def knows(self, name: str) -> bool:
        return name in (DICT, TENSOR, *STORAGES)

    def _binpersid(self, _: object) -> None:
        match self.stack.pop():
            case ("storage", Name(kind), str(key), str(), int(size)) if kind in STORAGES and key.isdecimal():
                if not key.isascii() or not 0 <= size <= MAX_STORAGE:
                    raise self.refusal("an impossible storage")
                dtype: np.dtype = STORAGES[kind]
                self.stack.append(_Storage(dtype, key, size))
            case _:
                raise self.refusal("a reference that is no storage")

    def _reduce(self, _: object) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        match called, arguments:
            case Name(text), () if text == DICT:
                self.stack.append({})
            case Name(text), (_Storage() as storage, int(offset), tuple(shape), tuple(stride), *_) if text == TENSOR:
                self.stack.append(self._tensor(storage, offset, shape, stride))
            case _:
                raise self.refusal("a call that is not of a dict or a tensor")

    def _tensor(self, storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> _Tensor:
        if any(type(n) is not int or n < 0 for n in (*shape, *stride, offset)) or len(shape) != len(stride):
            raise self.refusal("a tensor of impossible shape")
        expected = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        dense = all(s == e for n, s, e in zip(shape, stride, expected, strict=True) if n > 1)
        if not dense or offset + prod(shape) > storage.size:
            raise self.refusal("a tensor that does not lie in its storage row by row")
        return _Tensor(storage, offset, shape)

    def _build(self, _: object) -> None:
        """Attributes of the dict (the versions of its modules): taken off and forgotten."""
        self.stack.pop()
        if not isinstance(self.stack[-1], dict):
            raise self.refusal("attributes of something else than a dict")
