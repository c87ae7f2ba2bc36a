"""The tables of the store, the same in SQLite and PostgreSQL. How they came to be is in `migrations`."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
)

from rlstudio.control.lifecycle import Desired
from rlstudio.core.run_state import RunState

metadata = MetaData()


class Words(TypeDecorator[str]):
    """Text that every database takes. What a run says about itself (the message of an error, say) may hold anything;
    PostgreSQL refuses NUL, and no UTF-8 has lone surrogates."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None else value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


Serial = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite


def _one_of(column: str, values: type[RunState] | type[Desired]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(value)) for value in values)})", name=f"{column}_known")


def _text(name: str) -> Column[str]:
    return Column(name, Words, nullable=False, server_default="")


def _whole(name: str, default: int = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=str(default))


version = Table("schema_version", metadata, Column("number", Integer, nullable=False))

runs = Table(
    "run",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("id", Words, nullable=False, unique=True),
    # what it is
    _text("name"),
    _text("owner"),
    _text("algo"),
    _text("env_id"),
    _whole("seed"),
    _text("config_yaml"),
    _text("config_hash"),
    Column("lineage", Words, nullable=False, server_default="{}"),
    Column("parent_id", Words, nullable=True),  # not a foreign key: a parent may be adopted later, or live elsewhere
    Column("parent_step", BigInteger, nullable=True),
    _text("sweep"),
    Column("trial", Integer, nullable=True),
    _text("created_at"),
    # what it asks for
    _whole("priority"),
    _whole("cpus", 1),
    _whole("gpus"),
    _whole("memory_mb"),
    _whole("max_retries"),
    Column("stall_seconds", Float, nullable=False, server_default="600"),
    # where it stands
    Column("state", Words, nullable=False),
    _text("reason"),
    _text("message"),
    Column("desired", Words, nullable=False, server_default="run"),
    _whole("version"),
    _text("updated_at"),
    # who has it
    _whole("token"),
    _whole("attempt"),
    _text("host"),
    _text("boot_id"),
    _whole("pid"),
    _whole("pid_start"),
    _whole("heartbeat"),
    _whole("progress"),
    Column("is_managed", Boolean, nullable=False, server_default="0"),
    Column("has_process", Boolean, nullable=False, server_default="0"),
    _text("devices"),  # the GPUs it was given
    _whole("failures"),
    _whole("failed_at"),
    # how far it is
    _whole("env_steps"),
    _whole("gradient_steps"),
    _whole("epoch"),
    _whole("total_epochs"),
    Column("eval_return", Float, nullable=True),
    Column("eval_low", Float, nullable=True),
    Column("eval_high", Float, nullable=True),
    Column("state_hash", Words, nullable=True),
    Column("exact", Boolean, nullable=False, server_default="1"),
    _text("exact_reason"),
    _whole("pause_at"),  # the epoch after which it is to wait for more; 0: none
    # what the user let it import when it was launched here: JSON lists, of modules and of the folders they lie in
    Column("imports", Words, nullable=False, server_default="[]"),
    Column("import_path", Words, nullable=False, server_default="[]"),
    _whole("pid_namespace"),  # with host, boot_id, pid and pid_start: who has it
    # what its user says about it: a JSON list of words, and a text
    Column("tags", Words, nullable=False, server_default="[]"),
    _text("note"),
    Column("train_return", Float, nullable=True),  # of the episodes of the last epoch that ended some
    _one_of("state", RunState),
    _one_of("desired", Desired),
    Index("run_by_state", "state"),
    Index("run_by_parent", "parent_id"),
    sqlite_autoincrement=True,  # a number is never given twice, also not after the newest run was removed
)

# Not as an Index: one with an option of PostgreSQL imports that dialect, which every command would wait for. Its b-tree
# has no room for a long name.
_BY_NAME = {
    "sqlite": DDL("CREATE INDEX run_by_name ON run (name)"),  # type: ignore[no-untyped-call]
    "postgresql": DDL("CREATE INDEX run_by_name ON run USING hash (name)"),  # type: ignore[no-untyped-call]
}
for _dialect, _statement in _BY_NAME.items():
    event.listen(runs, "after_create", _statement.execute_if(dialect=_dialect))

events = Table(
    "event",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("run_id", Words, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("version", BigInteger, nullable=False),  # of the run after it: a history has no holes
    Column("state", Words, nullable=False),
    _text("reason"),
    _text("message"),
    _whole("token"),
    _text("at"),
    UniqueConstraint("run_id", "version", name="event_once"),
    sqlite_autoincrement=True,
)

checkpoints = Table(
    "checkpoint",
    metadata,
    Column("run_id", Words, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("step", BigInteger, primary_key=True),
    _text("state_hash"),
    _text("manifest_sha256"),
    _whole("token"),
)

keys = Table(
    "idempotency_key",
    metadata,
    Column("key", Words, primary_key=True),
    Column("run_id", Words, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    _text("config_hash"),
)

workers = Table(
    "worker",
    metadata,
    Column("id", Words, primary_key=True),
    _text("host"),
    _text("boot_id"),
    _whole("pid"),
    _whole("pid_start"),
    _whole("heartbeat"),
    _whole("cpus"),
    _whole("gpus"),
    _whole("memory_mb"),
    Column("throughput", Float, nullable=False, server_default="0"),
    _whole("queue_depth"),
    _text("started_at"),
    _whole("pid_namespace"),
)
