"""Opening the database behind the store: SQLite in the state folder, or PostgreSQL by its URL.

SQLite: transactions that will write say so at once (BEGIN IMMEDIATE; a later upgrade of the lock is what fails with
"database is locked"), commits are on disk before they are acknowledged, and the write-ahead log is used only where the
linked library is new enough: all versions before 3.51.3 can corrupt a database when the log is reset.

PostgreSQL: rows are locked while they change, for as long as SQLite would wait and no longer; a process that froze in
the middle of a transaction loses it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool, Pool

from rlstudio.control.store import migrations
from rlstudio.core.errors import StorageError, StoreBusy, UserError
from rlstudio.core.process import call_in_children
from rlstudio.storage.folder import ensure_directory

SAFE_WAL = (3, 51, 3)
BUSY_SECONDS = 20
CONNECT_SECONDS = 10
NETWORK_DISKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "lustre", "fuse.sshfs"})
BUSY_STATES = frozenset({"55P03", "40P01", "40001"})  # no lock in time, deadlock, could not be put in a row
DISK_FULL_STATE = "53100"

_FULL = "the disk is full; free some space and try again"
_SQLITE_DISK = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "the disk reported an input/output error; check the device before going on",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; see that its disk is whole and has room, and that its folder is yours",
}

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_of_the_parent: list[Pool] = []


class Database:
    """Transactions on one database whose tables are of this version."""

    def __init__(self, url: str, *, pooled: bool = True) -> None:
        """`sqlite:////path/to/file` or `postgresql://user@host/name`. Tables are made, or brought up to date."""
        parsed = _parse(url)
        self.where = _without_secrets(parsed)
        self._path = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        options: dict[str, Any] = {} if pooled else {"poolclass": NullPool}
        if self._path is not None:
            _prepare_file(self._path)
        else:
            options |= {"isolation_level": "READ COMMITTED", "pool_pre_ping": True}
            if "connect_timeout" not in parsed.query:
                options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
        try:
            self.engine = create_engine(parsed, **options)
        except (ArgumentError, NoSuchModuleError) as error:
            raise UserError(f"RLSTUDIO_DB: {_told(error)}; {_REMEDY}") from None
        except ModuleNotFoundError as error:
            raise UserError(
                f'RLSTUDIO_DB: needs {error.name}; install it with: pip install "rlstudio[postgres]"'
            ) from None
        if self._path is not None:
            event.listen(self.engine, "connect", _set_up_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            event.listen(self.engine, "connect", _set_up_postgresql)
        _engines.add(self.engine)
        call_in_children(_forget_all)
        with self.translated():
            migrations.bring_up_to_date(self.engine, self._path)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: all of it, or nothing."""
        with self.translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.translated(), self.engine.connect().execution_options(rlstudio_reads=True) as connection:
            yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What the driver complains about, as ours."""
        try:
            yield
        except IntegrityError:
            raise  # a matter between the store and its caller
        except DBAPIError as error:
            raise self._translate(error) from error

    def _translate(self, error: DBAPIError) -> Exception:
        told = _told(error.orig or error)
        if _is_busy(error.orig):
            return StoreBusy(f"{self.where}: another process has held the store for {BUSY_SECONDS} s; try again")
        if "malformed" in told or "not a database" in told:
            return StorageError(
                f"{self.where}: damaged ({told}); put it aside and take the runs in again with: rlctl adopt RUN_FOLDER"
            )
        return StorageError(f"{self.where}: {_disk_says(error.orig) or told}")

    def close(self) -> None:
        self.engine.dispose()


_REMEDY = "give postgresql://user@host/name, or unset it for SQLite"


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # whose message may hold a part of the password
        raise UserError(f"RLSTUDIO_DB: is not a URL; {_REMEDY}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise UserError(f"RLSTUDIO_DB: {parsed.get_backend_name()} is not supported; {_REMEDY}")
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UserError(f"RLSTUDIO_DB: a store in memory would be lost; {_REMEDY}")
    return parsed


def _without_secrets(url: URL) -> str:
    """For people: also what is given like ?password=... is hidden."""
    secret = {name: "***" for name in url.query if "pass" in name.lower()}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _is_busy(error: object) -> bool:
    """Told by code: words like "locked" can be part of a name."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)  # None where Python's module itself complains
        return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlstate", None) in BUSY_STATES


def _disk_says(error: object) -> str | None:
    """What the disk behind the store complains about, and what to do about it; None where it is something else."""
    if isinstance(error, sqlite3.Error):
        return _SQLITE_DISK.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
    return _FULL if getattr(error, "sqlstate", None) == DISK_FULL_STATE else None


def _prepare_file(path: Path) -> None:
    """A private file of our own; never through a link, never on a disk whose locks cannot be trusted."""
    for folder in reversed((path.parent, *path.parent.parents)):
        ensure_directory(folder)  # one by one: each that is made is private
    kind = _disk(path.parent)
    if kind in NETWORK_DISKS:
        raise UserError(
            f"{path.parent}: is on a network disk ({kind}), where SQLite is not safe;"
            " set RLSTUDIO_HOME to a folder on a local disk, or RLSTUDIO_DB=postgresql://..."
        )
    _require_plain_files(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    os.close(descriptor)


def _require_plain_files(file: Path) -> None:
    """SQLite opens by name what lies beside its file. A pipe would block it, a link lead elsewhere, and a file that has
    two names also has two journals, which corrupts it."""
    for path in (file.with_name(file.name + suffix) for suffix in ("", "-journal", "-wal", "-shm")):
        with suppress(OSError):  # not there, or for opening it to complain about
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise UserError(f"{path}: is not a plain file with one name; put a copy of the real one in its place")


def _disk(path: Path) -> str:
    """The kind of file system a folder lies on; empty where it cannot be told."""
    here, deepest, kind = path.resolve(), 0, ""
    for line in _mounts().splitlines():
        _, escaped, found, *_ = line.split(" ")
        mount = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped))
        if here.is_relative_to(mount) and len(mount.parts) >= deepest:  # of two at one place the later is seen
            deepest, kind = len(mount.parts), found
    return kind


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ""


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say
    journal = "WAL" if sqlite3.sqlite_version_info >= SAFE_WAL else "DELETE"
    for pragma in (
        f"busy_timeout={round(1000 * BUSY_SECONDS)}",
        "foreign_keys=ON",
        f"journal_mode={journal}",
        "synchronous=FULL",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _set_up_postgresql(connection: Any, _: object) -> None:
    milliseconds = round(1000 * BUSY_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {milliseconds}")
        cursor.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    reads = connection.get_execution_options().get("rlstudio_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _forget_all() -> None:
    """A forked child must not use, nor close, its parent's connections. They are kept, not collected: a connection of
    SQLite that is closed here would roll back what the parent is writing."""
    for engine in list(_engines):
        _of_the_parent.append(engine.pool)
        engine.dispose(close=False)


def _told(error: BaseException) -> str:
    """The first line: drivers add hints, and SQLAlchemy the statement."""
    return str(error).strip().partition("\n")[0]
