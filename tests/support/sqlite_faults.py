"""What SQLite itself does to the disk, as operations of `failpoint`: counted, killed, torn or refused one by one.

SQLite's own hook for this (`xSetSystemCall` of its file system) takes a function in place of each system call. The real
call is made by Python, after `failpoint.reach` has let it pass. Syncs cannot be taken over; without a power cut they
change nothing.
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


def _write_at(descriptor: int, data: int, size: int, place: int) -> int:
    content = ctypes.string_at(data, size)
    operation = Operation("write", _file(descriptor), data=content)
    reach(operation, lambda: os.pwrite(descriptor, content[: size // 2], place))
    return os.pwrite(descriptor, content, place)


def _cut(descriptor: int, size: int) -> int:
    reach(Operation("write", _file(descriptor)))
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
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    found = library.sqlite3_vfs_find(None)
    vfs, address = found.contents, ctypes.cast(found, Pointer)
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
