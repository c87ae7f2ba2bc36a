"""The tables of the registry: versions of models, which stage each is in, and everything that was ever decided."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from rlstudio.control.store.schema import Serial, Words, metadata

versions = Table(
    "model_version",
    metadata,
    Column("model", Words, nullable=False),
    Column("version", Integer, nullable=False, autoincrement=False),
    Column("digest", Words, nullable=False),  # sha256 of the bundle's manifest: the name of its blob
    Column("run_id", Words, nullable=False, server_default=""),
    Column("step", BigInteger, nullable=False, server_default="0"),
    Column("stage", Words, nullable=False, server_default="none"),
    Column("created_at", Words, nullable=False, server_default=""),
    PrimaryKeyConstraint("model", "version"),
    UniqueConstraint("model", "digest", name="version_once"),
    CheckConstraint("stage IN ('none', 'staging', 'production', 'archived')", name="stage_known"),
)

# The database itself keeps it: never two versions of a model in production.
_LIVE = text("stage = 'production'")
Index("one_production", versions.c.model, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)

audit = Table(
    "registry_event",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("model", Words, nullable=False),
    Column("version", Integer, nullable=False),
    Column("stage", Words, nullable=False),  # what this version became
    Column("kind", Words, nullable=False),  # register, promote, force, refuse, archive, rollback
    Column("actor", Words, nullable=False, server_default=""),
    Column("reason", Words, nullable=False, server_default=""),
    Column("verdict", Words, nullable=False, server_default=""),  # JSON: every number the decision rests on
    Column("at", Words, nullable=False, server_default=""),
    Index("audit_by_model", "model"),
    sqlite_autoincrement=True,
)


def from_version_1(connection: Connection) -> None:
    """Make the tables of the registry, which version 1 has not."""
    serial = (
        "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT" if connection.dialect.name == "sqlite" else "BIGSERIAL PRIMARY KEY"
    )
    for statement in _STATEMENTS:
        connection.execute(text(statement.replace("SERIAL_KEY", serial)))


_STATEMENTS = (
    """
CREATE TABLE model_version (
    model TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    run_id TEXT DEFAULT '' NOT NULL,
    step BIGINT DEFAULT '0' NOT NULL,
    stage TEXT DEFAULT 'none' NOT NULL,
    created_at TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (model, version),
    CONSTRAINT version_once UNIQUE (model, digest),
    CONSTRAINT stage_known CHECK (stage IN ('none', 'staging', 'production', 'archived'))
)
""",
    "CREATE UNIQUE INDEX one_production ON model_version (model) WHERE stage = 'production'",
    """
CREATE TABLE registry_event (
    seq SERIAL_KEY,
    model TEXT NOT NULL,
    version INTEGER NOT NULL,
    stage TEXT NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT DEFAULT '' NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    verdict TEXT DEFAULT '' NOT NULL,
    at TEXT DEFAULT '' NOT NULL
)
""",
    "CREATE INDEX audit_by_model ON registry_event (model)",
)
