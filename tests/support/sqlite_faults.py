"""What SQLite itself does to the disk, as operations of `failpoint`: counted, killed, torn or refused one by one.

SQLite's own hook for this (`xSetSystemCall` of its file system) takes a function in place of each system call. The real
call is made by Python, after `failpoint.reach` has let it pass. Syncs are no such call, and without a power cut they
change nothing: `sqlite_tells_syncs` notes them too, by standing in for the method of each file that SQLite opens.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlstudio.storage.failpoint import Kind, Operation, reach

Pointer, Bytes, Int, Long = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, from its documentation."""

    _fields_ = [
        ("version", Int),
        ("file_size", Int),
        ("longest_path", Int),
        ("next", Pointer),
        ("name", ctypes.c_char_p),
        ("data", Pointer),
        *((name, Pointer) for name in ("open", "delete", "access", "full_path", "dl_open", "dl_error", "dl_sym")),
        *((name, Pointer) for name in ("dl_close", "random", "sleep", "time", "last_error", "time64")),
        ("set_call", ctypes.CFUNCTYPE(Int, Pointer, ctypes.c_char_p, Pointer)),
        ("get_call", ctypes.CFUNCTYPE(Pointer, Pointer, ctypes.c_char_p)),
        ("next_call", Pointer),
    ]


def _passing(call: Callable[..., int]) -> Callable[..., int]:
    """The result as C expects it: -1, and why in errno."""

    def passed(*args: Any) -> int:
        try:
            return call(*args)
        except OSError as error:
            ctypes.set_errno(error.errno or 0)
            return -1

    return passed


def _file(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def _write(descriptor: int, data: int, size: int) -> int:
    content = ctypes.string_at(data, size)
    operation = Operation("write", _file(descriptor), data=content)
    reach(operation, lambda: os.write(descriptor, content[: size // 2]))
    return os.write(descriptor, content)


class Placed(Operation):
    """A write into the midst of a file, or with no data its cut at that place."""

    place: int

    @classmethod
    def at(cls, path: Path, place: int, data: bytes = b"") -> Placed:
        operation = cls("write", path, data=data)
        operation.place = place
        return operation


def _write_at(descriptor: int, data: int, size: int, place: int) -> int:
    content = ctypes.string_at(data, size)
    operation = Placed.at(_file(descriptor), place, content)
    reach(operation, lambda: os.pwrite(descriptor, content[: size // 2], place))
    return os.pwrite(descriptor, content, place)


def _cut(descriptor: int, size: int) -> int:
    reach(Placed.at(_file(descriptor), size))
    os.ftruncate(descriptor, size)
    return 0


def _unlink(path: bytes) -> int:
    reach(Operation("unlink", Path(os.fsdecode(path))))
    os.unlink(path)
    return 0


def _open(path: bytes, flags: int, mode: int) -> int:
    if flags & os.O_CREAT and not os.path.lexists(path):
        kind: Kind = "create"
        reach(Operation(kind, Path(os.fsdecode(path))))
    return os.open(path, flags, mode)


_CALLS: dict[bytes, tuple[Any, Callable[..., int]]] = {
    b"write": (ctypes.CFUNCTYPE(ctypes.c_ssize_t, Int, Bytes, ctypes.c_size_t, use_errno=True), _write),
    b"pwrite": (ctypes.CFUNCTYPE(ctypes.c_ssize_t, Int, Bytes, ctypes.c_size_t, Long, use_errno=True), _write_at),
    b"pwrite64": (ctypes.CFUNCTYPE(ctypes.c_ssize_t, Int, Bytes, ctypes.c_size_t, Long, use_errno=True), _write_at),
    b"ftruncate": (ctypes.CFUNCTYPE(Int, Int, Long, use_errno=True), _cut),
    b"unlink": (ctypes.CFUNCTYPE(Int, ctypes.c_char_p, use_errno=True), _unlink),
    b"open": (ctypes.CFUNCTYPE(Int, ctypes.c_char_p, Int, Int, use_errno=True), _open),
}


@contextmanager
def sqlite_passes_failpoints() -> Iterator[None]:
    """While this lasts, every change that SQLite makes in this process, and in those forked from it, is counted."""
    vfs, address = _vfs()
    assert vfs.version >= 3
    before = {name: vfs.get_call(address, name) for name in _CALLS}
    ours = {name: prototype(_passing(call)) for name, (prototype, call) in _CALLS.items()}
    for name, call in ours.items():
        if before[name]:
            assert vfs.set_call(address, name, ctypes.cast(call, Pointer)) == 0
    try:
        yield
    finally:
        for name, call in before.items():
            if call:
                vfs.set_call(address, name, call)


def _vfs() -> tuple[Any, Any]:
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    found = library.sqlite3_vfs_find(None)
    return found.contents, ctypes.cast(found, Pointer)


Open = ctypes.CFUNCTYPE(Int, Pointer, Pointer, Pointer, Int, Pointer)
Sync = ctypes.CFUNCTYPE(Int, Pointer, Int)
OpenDirectory = ctypes.CFUNCTYPE(Int, ctypes.c_char_p, ctypes.POINTER(Int), use_errno=True)
METHODS, SYNC = 19, 5  # words of `sqlite3_io_methods`, and which of them is `xSync`


@contextmanager
def sqlite_tells_syncs() -> Iterator[None]:
    """While this lasts, each sync of a file that SQLite opens, and of its folder, is noted once it is done."""
    vfs, address = _vfs()
    real_open = Open(vfs.open)
    names: dict[int, Path] = {}
    tables: dict[int, Any] = {}  # SQLite's methods of a kind of file -> ours
    real_syncs: dict[int, Any] = {}

    def sync(file: int, flags: int) -> int:
        table = ctypes.c_void_p.from_address(file).value
        result = int(real_syncs[table](file, flags))  # type: ignore[index]
        if file in names:
            reach(Operation("sync", names[file]))
        return result

    told = Sync(sync)

    def opened(own: int, name: int | None, file: int, flags: int, out: int) -> int:  # the name is kept: not a copy
        result = int(real_open(own, name, file, flags, out))
        methods = ctypes.c_void_p.from_address(file)
        if result == 0 and name and methods.value:
            if methods.value not in tables:
                copy = (ctypes.c_void_p * METHODS).from_buffer_copy(
                    (ctypes.c_void_p * METHODS).from_address(methods.value)
                )
                real = Sync(copy[SYNC])
                copy[SYNC] = ctypes.cast(told, ctypes.c_void_p).value
                tables[methods.value] = copy
                real_syncs[ctypes.addressof(copy)] = real
            names[file] = Path(os.fsdecode(ctypes.string_at(name)))
            methods.value = ctypes.addressof(tables[methods.value])
        return result

    def directory(path: bytes, descriptor: Any) -> int:
        folder = Path(os.fsdecode(path)).parent
        descriptor[0] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        reach(Operation("sync", folder))  # it is opened for nothing else
        return 0

    ours, of_folder = Open(opened), OpenDirectory(directory)
    before = vfs.get_call(address, b"openDirectory")
    vfs.open = ctypes.cast(ours, ctypes.c_void_p).value
    assert vfs.set_call(address, b"openDirectory", ctypes.cast(of_folder, Pointer)) == 0
    try:
        yield
    finally:
        vfs.open = ctypes.cast(real_open, ctypes.c_void_p).value
        vfs.set_call(address, b"openDirectory", before)
        _ALIVE.append((ours, told, of_folder, tables, real_syncs))  # connections may outlive this


_ALIVE: list[Any] = []
