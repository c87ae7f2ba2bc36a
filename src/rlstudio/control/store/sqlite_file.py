"""The file of a SQLite store: made private to write to it, opened without leaving a trace to read it.

No function here opens the store's file by itself while it exists: closing any descriptor of a file drops all locks that
this process has on it, also those of a transaction in another thread.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from rlstudio.core.errors import StorageError, StoreBusy, UserError
from rlstudio.storage.folder import ensure_directory
from rlstudio.storage.writers import translated_os_errors

NETWORK_DISKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "lustre", "fuse.sshfs"})
BESIDE = ("-journal", "-wal", "-shm")
COPIED = ("", "-journal", "-wal")  # the third one SQLite makes anew from the second
COPY_ATTEMPTS = 20


def prepare(path: Path) -> None:
    """A private file of our own; never through a link, never on a disk whose locks cannot be trusted."""
    for folder in reversed((path.parent, *path.parent.parents)):
        ensure_directory(folder)  # one by one: each that is made is private
    _refuse_network_disk(path)
    _require_plain_files(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        _refuse_without_permission(path, os.R_OK | os.W_OK)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error


def open_to_read(
    path: Path, busy_seconds: float, is_current: Callable[[sqlite3.Connection], bool]
) -> sqlite3.Connection:
    """The file itself, which SQLite then refuses to write to; or a copy of it in memory, where it is missing, not of
    this version, or could not be read without repairing it first."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return _in_memory()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    _refuse_network_disk(path)
    _require_plain_files(path)
    _refuse_without_permission(path, os.R_OK)
    if _has_write_ahead_log(path):
        return _repaired_copy(path)
    connection = _connect(path, timeout=busy_seconds)
    try:
        if is_current(connection):
            return connection
        copy = _in_memory()
        connection.backup(copy)
    except sqlite3.DatabaseError as error:
        connection.close()
        if not needs_repair(error):
            raise
        return _repaired_copy(path)
    connection.close()
    return copy


def needs_repair(error: object) -> bool:
    """Whether a read failed because a writer was killed: its transaction must be rolled back before reading."""
    code = getattr(error, "sqlite_errorcode", None) or 0  # None where Python's module itself complains
    return bool(code & 0xFF == sqlite3.SQLITE_READONLY)


def _connect(path: Path, options: str = "", timeout: float = 0.0) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro{options}", uri=True, timeout=timeout, isolation_level=None
    )


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def _has_write_ahead_log(path: Path) -> bool:
    """Whether it was written with one, which a reader too would have to create and write to. SQLite refuses such a
    file where it may not lock; any other error is left to the read with locks."""
    with closing(_connect(path, "&nolock=1")) as probe:
        try:
            probe.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.DatabaseError as error:
            return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
    return False


def _repaired_copy(path: Path) -> sqlite3.Connection:
    """A copy of the file with its journals, elsewhere, which SQLite repairs there as after a power cut."""
    for _ in range(COPY_ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="rlstudio-") as folder:
            before = _fingerprint(path)
            done = _copy_beside(path, folder)
            if _fingerprint(path) != before:
                continue
            if done.returncode:
                raise StorageError(f"{path}: could not be copied to be read: {done.stderr.strip()}")
            with closing(sqlite3.connect(Path(folder) / path.name, isolation_level=None)) as repaired:
                repaired.execute("PRAGMA journal_mode=DELETE")
                copy = _in_memory()
                repaired.backup(copy)
                return copy
    raise StoreBusy(f"{path}: was changed each of {COPY_ATTEMPTS} times that it was copied to be read; try again")


def _copy_beside(path: Path, folder: str) -> subprocess.CompletedProcess[str]:
    """By another process: closing the file in this one would drop our locks."""
    sources = [path.with_name(path.name + suffix) for suffix in COPIED]
    there = [str(source) for source in sources if source.exists()]
    return subprocess.run(["cp", "--", *there, folder], check=False, capture_output=True, text=True)


def _fingerprint(path: Path) -> list[tuple[int, int, int] | None]:
    """Differs after every change of the file or its journals."""
    prints: list[tuple[int, int, int] | None] = []
    for suffix in COPIED:
        try:
            info = os.lstat(path.with_name(path.name + suffix))
            prints.append((info.st_ino, info.st_size, info.st_mtime_ns))
        except FileNotFoundError:
            prints.append(None)
    return prints


def _refuse_without_permission(path: Path, wanted: int) -> None:
    if not os.access(path, wanted):
        is_read_only = wanted & os.W_OK and os.statvfs(path.parent).f_flag & os.ST_RDONLY
        with translated_os_errors(path):
            raise OSError(errno.EROFS if is_read_only else errno.EACCES, "refused")


def _refuse_network_disk(path: Path) -> None:
    kind = _disk(path.parent)
    if kind in NETWORK_DISKS:
        raise UserError(
            f"{path.parent}: is on a network disk ({kind}), where SQLite is not safe;"
            " set RLSTUDIO_HOME to a folder on a local disk, or RLSTUDIO_DB=postgresql://..."
        )


def _require_plain_files(file: Path) -> None:
    """SQLite opens by name what lies beside its file. A pipe would block it, a link lead elsewhere, and a file that has
    two names also has two journals, which corrupts it."""
    for path in (file.with_name(file.name + suffix) for suffix in ("", *BESIDE)):
        with suppress(OSError):  # not there, or opening it reports the error
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
                raise UserError(f"{path}: is not a plain file with one name; put a copy of the real one in its place")


def _disk(path: Path) -> str:
    """The kind of file system a folder lies on; empty where it is unknown."""
    here, deepest, kind = path.resolve().parts, 0, ""
    for mount, mounted in _mount_points(_mounts()):
        if here[: len(mount)] == mount and len(mount) >= deepest:  # of two at one place the later one counts
            deepest, kind = len(mount), mounted
    return kind


@lru_cache(maxsize=1)  # each look at a store asks, and mounts hardly ever change
def _mount_points(mounts: str) -> list[tuple[tuple[str, ...], str]]:
    """The parts of the path of each mount, and the kind of its file system."""
    points = []
    for line in mounts.splitlines():
        _, escaped, kind, *_ = line.split(" ")
        path = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped))
        points.append((path.parts, kind))
    return points


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ""
