"""The tables of sweeps. A trial's runs are ordinary rows of `run` with its `sweep` and `trial`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, ForeignKey, Integer, Table, text

from rlstudio.control.store.schema import Words, metadata

sweeps = Table(
    "sweep",
    metadata,
    Column("name", Words, primary_key=True),
    Column("config", Words, nullable=False),  # JSON, the experiment in it resolved
    Column("state", Words, nullable=False),
    Column("deterministic", Boolean, nullable=False, server_default="0"),
    Column("created_at", Words, nullable=False, server_default=""),
    Column("updated_at", Words, nullable=False, server_default=""),
    # who drives it
    Column("token", BigInteger, nullable=False, server_default="0"),
    Column("host", Words, nullable=False, server_default=""),
    Column("boot_id", Words, nullable=False, server_default=""),
    Column("pid", BigInteger, nullable=False, server_default="0"),
    Column("pid_start", BigInteger, nullable=False, server_default="0"),
    Column("pid_namespace", BigInteger, nullable=False, server_default="0"),
)

trials = Table(
    "trial",
    metadata,
    Column("sweep", Words, ForeignKey("sweep.name", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Words, nullable=False),
    Column("params", Words, nullable=False),  # JSON: path -> value
    Column("target", BigInteger, nullable=False),  # the epoch its runs are to reach
    Column("results", Words, nullable=False, server_default="{}"),  # JSON: epoch -> seed -> value
    Column("score", Float, nullable=True),  # at the last epoch that is in `results`
    Column("bracket", Integer, nullable=False, server_default="0"),
    Column("parent", Integer, nullable=True),  # the trial whose checkpoints it began with
    Column("message", Words, nullable=False, server_default=""),
    Column("updated_at", Words, nullable=False, server_default=""),
)


def from_version_1(connection: Connection) -> None:
    """Make the tables of sweeps and `run.pause_at`, which version 1 has not."""
    for statement in _STATEMENTS:
        connection.execute(text(statement))


_STATEMENTS = (
    "ALTER TABLE run ADD COLUMN pause_at BIGINT DEFAULT '0' NOT NULL",
    """
CREATE TABLE sweep (
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    state TEXT NOT NULL,
    deterministic BOOLEAN DEFAULT '0' NOT NULL,
    created_at TEXT DEFAULT '' NOT NULL,
    updated_at TEXT DEFAULT '' NOT NULL,
    token BIGINT DEFAULT '0' NOT NULL,
    host TEXT DEFAULT '' NOT NULL,
    boot_id TEXT DEFAULT '' NOT NULL,
    pid BIGINT DEFAULT '0' NOT NULL,
    pid_start BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (name)
)
""",
    """
CREATE TABLE trial (
    sweep TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    params TEXT NOT NULL,
    target BIGINT NOT NULL,
    results TEXT DEFAULT '{}' NOT NULL,
    score FLOAT,
    bracket INTEGER DEFAULT '0' NOT NULL,
    parent INTEGER,
    message TEXT DEFAULT '' NOT NULL,
    updated_at TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (sweep, number),
    FOREIGN KEY(sweep) REFERENCES sweep (name) ON DELETE CASCADE
)
""",
)
