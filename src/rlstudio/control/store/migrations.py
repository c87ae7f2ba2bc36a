"""Older stores are brought up to date, with a copy kept; newer ones are refused.

A new store is made from `schema` as it is; `STEPS[n]` turns one of version n into version n + 1. A step never uses
`schema`, which goes on changing, but has its own SQL. Both ways must end in the same tables (there is a test).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, insert, select, text, update

from rlstudio.control.store import schema
from rlstudio.core.errors import StorageError, UserError

VERSION = 4


def _to_version_2(connection: Connection) -> None:
    from rlstudio.control.store import registry_tables, sweep_tables

    sweep_tables.from_version_1(connection)
    registry_tables.from_version_1(connection)


def _to_version_3(connection: Connection) -> None:
    from rlstudio.control.store import version_3

    version_3.from_version_2(connection)


def _to_version_4(connection: Connection) -> None:
    """What a user says about a run, and its return during training."""
    connection.execute(text("ALTER TABLE run ADD COLUMN tags TEXT DEFAULT '[]' NOT NULL"))
    connection.execute(text("ALTER TABLE run ADD COLUMN note TEXT DEFAULT '' NOT NULL"))
    connection.execute(text("ALTER TABLE run ADD COLUMN train_return FLOAT"))


STEPS: dict[int, Callable[[Connection], None]] = {1: _to_version_2, 2: _to_version_3, 3: _to_version_4}

# Plain SQL: SQLAlchemy's inspector takes longer to load than all else that a command asks the store.
_HAS_TABLE = {
    "sqlite": text("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'"),
    # Not to_regclass: it may answer from what this connection knew before it waited for the lock.
    "postgresql": text(
        "SELECT count(*) FROM pg_tables WHERE tablename = 'schema_version' AND schemaname = current_schema()"
    ),
}
_LOCK = 0x524C5354  # any number, the same in every process: the others wait for the one that migrates


def bring_up_to_date(engine: Engine, path: Path | None) -> None:
    """Make the tables, or migrate them to this version; costs one read where nothing is to be done."""
    with engine.connect().execution_options(rlstudio_reads=True) as connection:
        version = stored_version(connection)
    if version == VERSION:
        return
    if version is not None and version > VERSION:
        raise _newer(version)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        _migrate(connection, path)


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether an open SQLite file has the tables of this version, or newer ones, which reading it refuses."""
    version = version_in_file(connection)
    return version is not None and version >= VERSION


def version_in_file(connection: sqlite3.Connection) -> int | None:
    """Of an open SQLite file; None where it is no store yet."""
    (has_table,) = connection.execute(str(_HAS_TABLE["sqlite"])).fetchone()
    row = connection.execute("SELECT number FROM schema_version").fetchone() if has_table else None
    return None if row is None else int(row[0])


def bring_copy_up_to_date(connection: Connection) -> None:
    """Migrate a private copy, inside the transaction that reads it."""
    if stored_version(connection) != VERSION:
        _migrate(connection, None)


@contextmanager
def empty_store() -> Iterator[Connection]:
    """A store without rows, in memory."""
    with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
        bring_copy_up_to_date(connection)
        yield connection


def version_to_read(connection: Connection) -> int | None:
    """The version of a store that is read where it lies; None for an empty database."""
    version = stored_version(connection)
    if version is not None and version > VERSION:
        raise _newer(version)
    if version is not None and version < VERSION:
        raise UserError(
            f"the store has version {version}, this RLStudio reads version {VERSION}; bring it up to date with:"
            " rlctl migrate (older programs can then not use it any more)"
        )
    return version


def _migrate(connection: Connection, path: Path | None) -> None:
    """In one transaction: a step that fails leaves the store as it was. Another process may have
    migrated meanwhile, so the version is read again."""
    version = stored_version(connection)
    if version is None:
        # Their own rooms import them; here they must be known before all tables are made.
        from rlstudio.control.store import registry_tables, sweep_tables  # noqa: F401

        schema.metadata.create_all(connection)
        connection.execute(insert(schema.version).values(number=VERSION))
        return
    if version > VERSION:
        raise _newer(version)
    if version < VERSION and path is not None:
        _copy(path, copy_of(path, version))
    for number in range(version, VERSION):
        STEPS[number](connection)
        connection.execute(update(schema.version).values(number=number + 1))


def copy_of(path: Path, version: int) -> Path:
    """Where the store stays as it was before its upgrade."""
    return path.with_name(f"{path.stem}-version-{version}{path.suffix}")


def stored_version(connection: Connection) -> int | None:
    """None for an empty database."""
    if not connection.execute(_HAS_TABLE[connection.dialect.name]).scalar_one():
        return None
    return connection.execute(select(schema.version.c.number)).scalar_one_or_none()


def _newer(version: int) -> UserError:
    return UserError(
        f"the store has version {version}, this RLStudio knows up to {VERSION}; upgrade RLStudio"
        ", or set RLSTUDIO_HOME to another folder"
    )


def _copy(path: Path, target: Path) -> None:
    """The store before this transaction, whole or not at all. We hold the write lock, so it does not change."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
        part.rename(target)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"{target}: the store could not be copied before its upgrade: {error}") from error
