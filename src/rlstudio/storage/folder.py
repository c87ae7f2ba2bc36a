"""The only place that changes a run folder: creates, writes, renames, syncs and removes.

Names are relative to one root and walked part by part without following a symbolic link. Folders are private (0700),
files too (0600). Every change passes `failpoint.reach`, and every refusal of the disk becomes a `StorageError` of one
line. A failed sync is never tried again on the same descriptor: the kernel may have dropped the pages it reports as
written, so the file is abandoned and the next attempt starts with a new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from rlstudio.core.errors import StorageError
from rlstudio.storage.failpoint import Kind, Operation, reach
from rlstudio.storage.refusals import errno_of
from rlstudio.storage.writers import CHUNK, AppendWriter, StreamWriter, Written, translated_os_errors

TEMPORARY, TRASH = ".tmp-", ".trash-"
LEFTOVERS = (TEMPORARY, TRASH)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def temporary(owner: str = "") -> str:
    """A fresh name for something unfinished; whoever owns the folder next removes what a crash left."""
    return f"{TEMPORARY}{owner}{'-' if owner else ''}{secrets.token_hex(6)}"


def is_directory(path: Path) -> bool:
    """Whether there is a folder; a path that nothing can lie at is refused, not merely absent."""
    if "\0" in str(path):
        raise StorageError(f"{path}: is not a path (it has a NUL in it)")
    try:
        with translated_os_errors(path):
            return stat.S_ISDIR(os.stat(path).st_mode)
    except StorageError as error:
        if errno_of(error) in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise


def ensure_directory(path: Path) -> None:
    """A folder at `path`, with those above it; each that is made is private, and durable where the one above it may be
    read. Nothing happens where there is one."""
    if is_directory(path):
        return
    with translated_os_errors(path):
        for folder in reversed((path, *path.parents)):  # `makedirs` gives its mode to the last one alone
            if not folder.is_dir():
                reach(Operation("mkdir", folder))
                os.makedirs(folder, mode=0o700, exist_ok=True)
                if os.access(folder.parent, os.R_OK):
                    Folder(folder.parent, through_link=True).sync()


def _beside(name: str, other: str) -> str:
    above, slash, _ = name.rpartition("/")
    return above + slash + other


class Folder:
    """One directory tree that belongs to us. Links may lead to the folder that holds its root; from there on nothing is
    followed. `through_link`: the root is what the user named, and may be a link too."""

    def __init__(self, root: Path, *, through_link: bool = False) -> None:
        self.root = root
        self._flags = _DIRECTORY if through_link else _DIRECTORY | os.O_NOFOLLOW

    def path(self, name: str) -> Path:
        return self.root / name

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds `name`, and the last part of the name ("." for the root)."""
        *above, last = name.split("/") if name else ["."]
        if any(part in ("", ".", "..") or "\0" in part for part in (*above, *([last] if name else []))):
            raise StorageError(f"{self.root}: {name!r} is not a name inside this folder")
        with translated_os_errors(self.path(name)):
            directory = os.open(self.root, self._flags)
            try:
                for part in above:
                    below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                    os.close(directory)
                    directory = below
                yield directory, last
            finally:
                os.close(directory)

    def _open(self, name: str, flags: int) -> int:
        with self._parent(name) as (directory, last):
            return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode=0o600, dir_fd=directory)

    # -- reading ----------------------------------------------------------------------------------------------------

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            with self._parent(name) as (directory, last):
                return os.stat(last, dir_fd=directory, follow_symlinks=False)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def kind(self, name: str) -> str | None:
        """`"file"`, `"folder"`, `"other"` (a link, a pipe, ...) or None where there is nothing."""
        status = self._stat(name)
        if status is None:
            return None
        return "file" if stat.S_ISREG(status.st_mode) else "folder" if stat.S_ISDIR(status.st_mode) else "other"

    def size(self, name: str) -> int | None:
        """Bytes of a regular file, or None if there is none."""
        status = self._stat(name)
        return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def names(self, name: str = "") -> list[str]:
        """The names in a directory, sorted; empty if it does not exist."""
        if name and self.kind(name) is None:
            return []
        descriptor = self._open(name, _DIRECTORY)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def open(self, name: str) -> BufferedReader:
        """A regular file for reading. A pipe or device in its place is refused, and does not block."""
        descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StorageError(f"{self.path(name)}: is not a regular file; remove it")
        return os.fdopen(descriptor, "rb")

    def read(self, name: str, limit: int = 64 << 20) -> bytes | None:
        """The content of a small file, or None if there is none."""
        try:
            file = self.open(name)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        with file, translated_os_errors(self.path(name)):
            if os.fstat(file.fileno()).st_size > limit:
                raise StorageError(f"{self.path(name)}: larger than {limit} bytes, which no file of this kind is")
            return file.read()

    # -- changing ---------------------------------------------------------------------------------------------------

    def _change(self, kind: Kind, name: str, change: Callable[[int, str], None]) -> None:
        with self._parent(name) as (directory, last):
            reach(Operation(kind, self.path(name)))
            change(directory, last)

    def make(self, name: str) -> None:
        """A new directory; it must not exist yet."""
        self._change("mkdir", name, lambda directory, last: os.mkdir(last, 0o700, dir_fd=directory))

    def sync(self, name: str = "") -> None:
        """Make the entries of a directory durable: what was created in, renamed into or removed from it."""
        descriptor = self._open(name, _DIRECTORY)
        try:
            with translated_os_errors(self.path(name)):
                reach(Operation("sync", self.path(name)))
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Atomic; a file replaces a file, a directory never replaces one that holds something."""
        with self._parent(source) as (source_fd, source_last), self._parent(target) as (target_fd, target_last):
            reach(Operation("rename", self.path(source), self.path(target)))
            os.rename(source_last, target_last, src_dir_fd=source_fd, dst_dir_fd=target_fd)

    def stream(self, name: str) -> StreamWriter:
        """A new file, hashed while it is written."""
        return StreamWriter(self.path(name), self._create(name, os.O_EXCL))

    def append(self, name: str) -> AppendWriter:
        """A file that grows at its end, created where it does not exist."""
        return AppendWriter(self.path(name), self._create(name, os.O_APPEND))

    def output(self, name: str) -> int:
        """A descriptor that a child process can print to, at the end of a file."""
        return self._create(name, os.O_APPEND)

    def _create(self, name: str, flag: int) -> int:
        with translated_os_errors(self.path(name)):
            reach(Operation("create", self.path(name)))
        return self._open_own(name, os.O_WRONLY | os.O_CREAT | flag)

    def _open_own(self, name: str, flags: int) -> int:
        """For writing. Refused, without blocking: a pipe or device, and a file that has another name (a hard link),
        through which something outside would change too."""
        try:
            descriptor = self._open(name, flags | os.O_NONBLOCK)
        except StorageError as error:
            if errno_of(error) == errno.ENXIO:  # nobody reads from the pipe
                raise StorageError(f"{self.path(name)}: is not a regular file; remove it") from error
            raise
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return descriptor
        os.close(descriptor)
        if stat.S_ISREG(status.st_mode):
            raise StorageError(f"{self.path(name)}: has another name (a hard link); put a copy of it in its place")
        raise StorageError(f"{self.path(name)}: is not a regular file; remove it")

    def create(self, name: str, data: bytes, *, durable: bool = True) -> Written:
        """A new file with this content. Durable: its bytes are on the disk (its name only after `sync`)."""
        with self.stream(name) as writer:
            writer.write(data)
            return writer.finish(durable=durable)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """The file has either its old content or this one, whatever happens. Not durable: a power cut may undo it."""
        self._publish(name, lambda part: self.create(part, data, durable=durable), durable)

    def keep_prefix(self, name: str, size: int) -> None:
        """The first `size` bytes as a new file under the same name: a stale writer goes on in the one that is gone."""

        def copy(part: str) -> None:
            with self.open(name) as source:
                self.copy(part, source, size)

        self._publish(name, copy, durable=True)

    def copy(self, name: str, source: BufferedReader, size: int) -> None:
        """The first `size` bytes of an open file, which may lie on another disk, as a new file."""
        with self.stream(name) as writer:
            while size and (data := source.read(min(size, CHUNK))):
                writer.write(data)
                size -= len(data)
            writer.finish()

    def _publish(self, name: str, write: Callable[[str], object], durable: bool) -> None:
        part = _beside(name, temporary())
        try:
            write(part)
            self.rename(part, name)
        except StorageError:
            self.discard(part)
            raise
        if durable:
            self.sync(name.rpartition("/")[0])

    def unlink(self, name: str) -> None:
        self._change("unlink", name, lambda directory, last: os.unlink(last, dir_fd=directory))

    def set_aside(self, name: str) -> str:
        """Rename to `.trash-`: gone at once, whatever happens to its pieces; returns the name to `delete`."""
        trash = _beside(name, TRASH + secrets.token_hex(6))
        self.rename(name, trash)
        return trash

    def remove_tree(self, name: str) -> None:
        self.delete(self.set_aside(name))

    def discard(self, name: str) -> None:
        """Take back something unfinished after a failure, as far as the disk allows."""
        with contextlib.suppress(StorageError):
            if self.kind(name) is not None:
                self.delete(name)

    def sweep(self, name: str = "") -> None:
        """Remove what crashes left in this directory. Only for the owner of the run."""
        for entry in self.names(name):
            if entry.startswith(LEFTOVERS):
                self.delete(f"{name}/{entry}" if name else entry)

    def delete(self, name: str) -> None:
        """Piece by piece, links and all; for what is unfinished or set aside."""
        if self.kind(name) != "folder":
            self.unlink(name)
            return
        for entry in self.names(name):
            self.delete(f"{name}/{entry}")
        self._change("rmdir", name, lambda directory, last: os.rmdir(last, dir_fd=directory))

    def lock(self, name: str) -> int | None:
        """A descriptor that holds the exclusive lock of this file until it is closed; None when another has it."""
        descriptor = self._open_own(name, os.O_RDWR) if self.kind(name) else self._create(name, 0)
        try:
            with translated_os_errors(self.path(name)):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StorageError as error:
            os.close(descriptor)
            if isinstance(error.__cause__, BlockingIOError):
                return None
            raise
        return descriptor
