"""Opening the database behind the store: SQLite in the state folder, or PostgreSQL by its URL.

SQLite: transactions that will write say so at once (BEGIN IMMEDIATE; a later upgrade of the lock is what fails with
"database is locked"), and commits are on disk before they are acknowledged. The journal is SQLite's rollback journal:
with a write-ahead log even a reader creates files and writes to them (decision 0029), and all versions of the library
before 3.51.3 can corrupt a database when that log is reset.

PostgreSQL: rows are locked while they change, for as long as SQLite would wait and no longer; a process that froze in
the middle of a transaction loses it.

`Database` is for commands that change something: its tables are made, or brought up to date. `ReadOnlyDatabase` is for
commands that only look.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool, Pool

from rlstudio.control.store import migrations, sqlite_file
from rlstudio.core.errors import StorageError, StoreBusy, UserError
from rlstudio.core.host.floors import require_sqlite
from rlstudio.core.host.installation import remedy
from rlstudio.core.host.process import call_in_children

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

BUSY_SECONDS = 20
CONNECT_SECONDS = 10
BUSY_STATES = frozenset({"55P03", "40P01", "40001"})  # no lock in time, deadlock, serialization failure
DISK_FULL_STATE = "53100"

_FULL = "the disk is full; free some space and try again"
_SQLITE_DISK = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "the disk reported an input/output error; check the device before going on",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its disk works and has room, and that its folder is yours",
}

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_abandoned_pools: list[Pool] = []


class Database:
    """Transactions on one database whose tables are of this version."""

    def __init__(self, url: str, *, pooled: bool = True) -> None:
        """`sqlite:////path/to/file` or `postgresql://user@host/name`. Tables are made, or brought up to date."""
        parsed = _parse(url)
        self.where = _without_secrets(parsed)
        self._path = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        try:
            self.engine = self._connect(parsed, pooled)
        except (ArgumentError, NoSuchModuleError) as error:
            raise UserError(f"RLSTUDIO_DB: {_first_line(error)}; {_REMEDY}") from None
        except ModuleNotFoundError as error:
            raise UserError(f"RLSTUDIO_DB: needs {error.name}; {remedy('postgres')}") from None
        _engines.add(self.engine)
        call_in_children(_forget_all)
        self._prepare()

    @property
    def is_server(self) -> bool:
        """Whether it is a server, which may be away for a while, and not a file."""
        return self._path is None

    def _connect(self, url: URL, pooled: bool) -> Engine:
        poolclass = None if pooled else NullPool
        if self._path is None:
            return _postgresql_engine(url, poolclass)
        require_sqlite()
        sqlite_file.prepare(self._path)
        engine = create_engine(url, poolclass=poolclass)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _prepare(self) -> None:
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
        """Raise the driver's errors as RLStudio's own."""
        try:
            yield
        except IntegrityError:
            raise  # the store's methods handle it
        except DBAPIError as error:
            raise self._translate(error) from error

    def _translate(self, error: DBAPIError) -> Exception:
        text = _first_line(error.orig or error)
        if _is_busy(error.orig):
            return StoreBusy(f"{self.where}: another process has held the store for {BUSY_SECONDS} s; try again")
        if "malformed" in text or "not a database" in text:
            return StorageError(
                f"{self.where}: damaged ({text}); put it aside and take the runs in again with: rlctl adopt RUN_FOLDER"
            )
        return StorageError(f"{self.where}: {_disk_says(error.orig) or text}")

    def close(self) -> None:
        self.engine.dispose()

    def abandon_connections(self) -> None:
        """Connect anew from now on, and close none: their descriptors may be those of other files by now."""
        _abandoned_pools.append(self.engine.pool)
        self.engine.dispose(close=False)


class ReadOnlyDatabase(Database):
    """The same tables to look at. Nothing is changed: no file appears, no older store is brought up to date, and no
    statement that writes is accepted. Every read sees the store as it is then, whatever others did to it meanwhile.

    A SQLite store that is not of this version is read from a copy in memory, where the copy is brought up to date; one
    that is not there reads as an empty one. A PostgreSQL store of an older version is refused: it cannot be copied in
    passing.
    """

    def _connect(self, url: URL, pooled: bool) -> Engine:
        if self._path is None:
            engine = _postgresql_engine(url)
            event.listen(engine, "connect", _refuse_writing)
            return engine
        return _reading_engine(self._path)

    def _prepare(self) -> None:
        """Makes nothing: each read checks the version of what is there."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        if self._path is not None:
            with self.translated(), self._begin_reading() as connection:
                yield connection
            return
        with super().read() as connection:
            if migrations.version_to_read(connection) is None:
                with migrations.empty_store() as nothing:
                    yield nothing
                return
            yield connection

    def stored_version(self) -> int | None:
        """Of the store where it lies, whatever version that is; None where there is none yet."""
        with self.translated():
            if self._path is None:
                with self.engine.connect() as connection:
                    return migrations.stored_version(connection)
            with closing(sqlite_file.open_to_read(self._path, BUSY_SECONDS, lambda connection: True)) as file:
                return migrations.version_in_file(file)

    def _begin_reading(self) -> Connection:
        """A connection whose transaction has read the version. A writer that is killed after the file was opened and
        before that leaves half of a transaction, which only a writer may roll back: the file is opened again, which
        then makes a repaired copy. From the first read on, the lock of this transaction keeps writers out."""
        for _ in range(sqlite_file.COPY_ATTEMPTS):
            connection = self.engine.connect().execution_options(rlstudio_reads=True)
            try:
                migrations.bring_copy_up_to_date(connection)
            except DBAPIError as error:
                connection.close()
                if not sqlite_file.needs_repair(error.orig):
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise StoreBusy(f"{self.where}: its writers were killed each time that it was opened to be read; try again")

    def write(self) -> NoReturn:
        raise RuntimeError(f"{self.where}: is open for reading only")


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
    if parsed.get_backend_name() == "sqlite":  # as it is now: an environment may change the working directory
        return parsed.set(database=os.path.abspath(parsed.database or ""))
    return parsed


def _without_secrets(url: URL) -> str:
    """The URL for messages: a password is hidden, also one given like ?password=..."""
    secret = {name: "***" for name in url.query if "pass" in name.lower()}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _is_busy(error: object) -> bool:
    """Decided by the error code: words like "locked" can be part of a name."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)  # None where Python's module itself complains
        return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlstate", None) in BUSY_STATES


def _disk_says(error: object) -> str | None:
    """The problem of the disk behind the store, and its remedy; None for any other error."""
    if isinstance(error, sqlite3.Error):
        return _SQLITE_DISK.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
    return _FULL if getattr(error, "sqlstate", None) == DISK_FULL_STATE else None


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say
    for pragma in (
        f"busy_timeout={round(1000 * BUSY_SECONDS)}",
        "foreign_keys=ON",
        "journal_mode=DELETE",
        "synchronous=EXTRA",  # FULL does not sync the folder after the unlink that commits: a power cut undoes it
    ):
        connection.execute(f"PRAGMA {pragma}")


@lru_cache(maxsize=8)  # an engine keeps its statements compiled, which takes longer than to run them
def _reading_engine(path: Path) -> Engine:
    # Each read opens the file anew (0.2 ms): it may have been made, replaced or brought up to date since.
    engine = create_engine("sqlite://", creator=lambda: _open_to_read(path), poolclass=NullPool)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _open_to_read(path: Path) -> sqlite3.Connection:
    return sqlite_file.open_to_read(path, BUSY_SECONDS, migrations.is_current)


def _postgresql_engine(url: URL, poolclass: type[Pool] | None = None) -> Engine:
    engine = create_engine(
        url,
        poolclass=poolclass,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        connect_args={} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS},
    )
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _refuse_writing(connection: DBAPIConnection, _: object) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    connection.commit()


def _set_up_postgresql(connection: DBAPIConnection, _: object) -> None:
    milliseconds = round(1000 * BUSY_SECONDS)
    with closing(connection.cursor()) as cursor:
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
        _abandoned_pools.append(engine.pool)
        engine.dispose(close=False)


def _first_line(error: BaseException) -> str:
    """The first line: drivers add hints, and SQLAlchemy the statement."""
    return str(error).strip().partition("\n")[0]
