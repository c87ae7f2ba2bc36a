"""The tensors of a file written by `torch.save`, without executing any of it.

Such a file is a zip with a pickle that describes the tensors and a raw file for each storage. A pickle is a program for
a small machine, and running it means trusting it. Here its instructions are only looked at: a few kinds of them build
dicts, tuples, text and numbers, three names stand for things we know how to make ourselves, and every other name or
instruction ends the reading.
"""

from __future__ import annotations

import pickletools
from math import prod
from typing import NamedTuple

import numpy as np

from rlstudio.delivery.sb3.zip_archive import Archive, BadArchive

MAX_PICKLE = 4 << 20
MAX_STORAGE = 256 << 20
MAX_STEPS = 500_000

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
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Name(NamedTuple):
    """Something that the file names; it is compared, never looked up."""

    text: str


class _Storage(NamedTuple):
    dtype: np.dtype
    key: str
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]


_MARK = object()


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
    state = _described(archive.read(pickles[0], MAX_PICKLE), label)
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


def _described(data: bytes, label: str) -> object:
    machine = _Machine(label)
    try:
        for number, (code, argument, _) in enumerate(pickletools.genops(data)):
            if number > MAX_STEPS:
                raise BadArchive(f"{label}: its description is too long")
            if code.name == "STOP":
                return machine.result()
            machine.take(code.name, argument)
    except BadArchive:
        raise
    except Exception as error:  # a hostile file can make the parser raise anything
        raise BadArchive(f"{label}: its description is damaged: {type(error).__name__} {error}") from error
    raise BadArchive(f"{label}: its description ends early")


class _Machine:
    """The stack of the description; only ever holds values of ours."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def result(self) -> object:
        if len(self.stack) != 1:
            raise self._refuse("an unfinished description")
        return self.stack[0]

    def take(self, code: str, argument: object) -> None:
        if code in CONSTANTS:
            self.stack.append(CONSTANTS[code])
        elif code in NUMBERS:
            self.stack.append(argument)
        elif code == "GLOBAL":
            if not isinstance(argument, str) or argument not in (DICT, TENSOR, *STORAGES):
                raise self._refuse(f"the name {argument!a}")
            self.stack.append(_Name(argument))
        elif code in TUPLES:
            self.stack[-TUPLES[code] :] = [tuple(self.stack[-TUPLES[code] :])]
        else:
            step = getattr(self, f"_{code.lower()}", None)
            if step is None:
                raise self._refuse(f"the instruction {code}")
            step(argument)

    def _refuse(self, what: str) -> BadArchive:
        return BadArchive(f"{self.label}: holds {what}, which no file of plain tensors does; it was not executed")

    def _proto(self, version: int) -> None:
        if version > 4:
            raise self._refuse(f"protocol {version}")

    def _frame(self, _: object) -> None:
        """Says how long a part is; the parser knows that by itself."""

    def _mark(self, _: object) -> None:
        self.stack.append(_MARK)

    def _since_mark(self) -> list[object]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise self._refuse("a mark too few")
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def _tuple(self, _: object) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _empty_tuple(self, _: object) -> None:
        self.stack.append(())

    def _empty_dict(self, _: object) -> None:
        self.stack.append({})

    def _setitem(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _setitems(self, _: object) -> None:
        self._put(self._since_mark())

    def _put(self, pairs: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise self._refuse("entries of something else than a dict")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str) or key in target:
                raise self._refuse("an entry whose name is no text, or there already")
            target[key] = value

    def _binput(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    _long_binput = _binput

    def _memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _binget(self, index: int) -> None:
        self.stack.append(self.memo[index])

    _long_binget = _binget

    def _binpersid(self, _: object) -> None:
        match self.stack.pop():
            case ("storage", _Name(kind), str(key), str(), int(size)) if kind in STORAGES and key.isdecimal():
                if not key.isascii() or not 0 <= size <= MAX_STORAGE:
                    raise self._refuse("an impossible storage")
                dtype: np.dtype = STORAGES[kind]
                self.stack.append(_Storage(dtype, key, size))
            case _:
                raise self._refuse("a reference that is no storage")

    def _reduce(self, _: object) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        match called, arguments:
            case _Name(text), () if text == DICT:
                self.stack.append({})
            case _Name(text), (_Storage() as storage, int(offset), tuple(shape), tuple(stride), *_) if text == TENSOR:
                self.stack.append(self._tensor(storage, offset, shape, stride))
            case _:
                raise self._refuse("a call that is not of a dict or a tensor")

    def _tensor(self, storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> _Tensor:
        if any(type(n) is not int or n < 0 for n in (*shape, *stride, offset)) or len(shape) != len(stride):
            raise self._refuse("a tensor of impossible shape")
        expected = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        dense = all(s == e for n, s, e in zip(shape, stride, expected, strict=True) if n > 1)
        if not dense or offset + prod(shape) > storage.size:
            raise self._refuse("a tensor that does not lie in its storage row by row")
        return _Tensor(storage, offset, shape)

    def _build(self, _: object) -> None:
        """Attributes of the dict (the versions of its modules): taken off and forgotten."""
        self.stack.pop()
        if not isinstance(self.stack[-1], dict):
            raise self._refuse("attributes of something else than a dict")
