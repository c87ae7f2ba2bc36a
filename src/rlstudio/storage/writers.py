"""Files open for writing, and the messages for errors of the disk. `Folder` opens these files; nothing else does."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.errors import FilesClosed, StorageError
from rlstudio.storage.descriptors import Opened
from rlstudio.storage.failpoint import Operation, reach

CHUNK = 1 << 20

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space, then resume the run",
    errno.EDQUOT: "the disk quota is used up; free some space, then resume the run",
    errno.EROFS: "the file system is read-only; choose another folder with --runs-dir",
    errno.EACCES: "no permission; change the folder's owner or mode, or choose another with --runs-dir",
    errno.EPERM: "not permitted; change the folder's owner or mode, or choose another with --runs-dir",
    errno.EIO: "the disk reported an input/output error; check the device before going on",
    errno.ELOOP: "is a symbolic link, which is never followed inside a run; put the real file in its place",
    errno.ENOTDIR: "is not a real folder (links are never followed inside a run); put the real one in its place",
    errno.EEXIST: "is there already and not a folder; choose another with --runs-dir",
    errno.ENOENT: "does not exist; the run folder was moved or removed",
}


class Written(NamedTuple):
    size: int
    sha256: str


def is_full(error: StorageError) -> bool:
    """Whether the disk (or the quota) had no room left, as against broken or forbidden."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def translated_os_errors(path: Path) -> Iterator[None]:
    """Raise an `OSError` of the body as a `StorageError` of one line: path, reason, remedy."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"{path}: {reason}") from error


class _Writer:
    """A file open for writing. After any failure it is closed and takes nothing more."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._opened: Opened | None = Opened.of(descriptor)

    def _put(self, data: bytes | memoryview) -> None:
        descriptor = self._open_descriptor()
        with self._closing_on_failure():
            half = data[: len(data) // 2]
            reach(Operation("write", self.path, data=data), lambda: os.write(descriptor, half))
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, data[written:])

    def sync(self) -> None:
        descriptor = self._open_descriptor()
        with self._closing_on_failure():
            reach(Operation("sync", self.path))
            os.fsync(descriptor)

    def _open_descriptor(self) -> int:
        if self._opened is None:
            raise StorageError(f"{self.path}: closed after an earlier failure; resume the run to go on")
        if not self._opened.is_ours:
            self._opened = None
            raise FilesClosed(f"{self.path}: was closed by other code in this process")
        return self._opened.number

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            with translated_os_errors(self.path):
                yield
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class StreamWriter(_Writer):
    """Writes one new file in large pieces and knows its size and sha256 at the end."""

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._hash = sha256()
        self._size = 0
        self._waiting = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self._hash.update(data)
        self._size += len(data)
        for start in range(0, len(data), CHUNK):
            self._waiting += data[start : start + CHUNK]
            if len(self._waiting) >= CHUNK:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._put(data)

    def finish(self, *, durable: bool = True) -> Written:
        self._flush()
        if durable:
            self.sync()
        self.close()
        return Written(self._size, self._hash.hexdigest())

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AppendWriter(_Writer):
    """Adds whole lines at the end of a file: each `append` is one write."""

    def append(self, data: bytes) -> None:
        if data:
            self._put(data)
