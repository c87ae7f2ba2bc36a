"""The file and the server behind the store: private, checked, locked, brought up to date, and damaged."""

from __future__ import annotations

import inspect
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, text

from rlstudio.control.store import database as database_module
from rlstudio.control.store import migrations, sqlite_file
from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.core.errors import StorageError, StoreBusy, UserError
from rlstudio.core.host import process
from rlstudio.core.run_state import OWNED, Reason, RunState
from support.control_world import S, assert_history, in_state, owner, request
from support.golden_store import GOLDEN


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "state" / "store.db"


def opened(path: Path) -> Store:
    return Store(Database(f"sqlite:///{path}"))


def one_line(caught: pytest.ExceptionInfo) -> str:
    message = str(caught.value)
    assert "\n" not in message
    return message


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {found.name: stat.S_IMODE(found.lstat().st_mode) for found in [folder, *folder.rglob("*")]}


def test_file_and_folders_are_private(tmp_path, umask):
    path = tmp_path / "new" / "below" / "store.db"
    store = opened(path)
    in_state(store, S.RUNNING)
    with store.database.write() as connection:
        connection.execute(text("DELETE FROM event"))
        # The journal holds the same rows, and is there while a transaction writes.
        assert modes(tmp_path / "new") == {"new": 0o700, "below": 0o700, "store.db": 0o600, "store.db-journal": 0o600}
        connection.rollback()
    store.database.close()


def test_settings_of_sqlite(path, monkeypatch):
    """As it is outside of the tests, which leave out the waiting for the disk."""
    monkeypatch.setattr(database_module, "_set_up_sqlite", inspect.unwrap(database_module._set_up_sqlite))
    with opened(path).database.read() as connection:
        pragmas = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("synchronous", "foreign_keys")
        }
        journal = connection.execute(text("PRAGMA journal_mode")).scalar()
    assert pragmas == {"synchronous": 3, "foreign_keys": 1}, "EXTRA, decision 0091"
    assert journal == "delete"


STRANGE = {
    "link": lambda path, other: path.symlink_to(other),
    "hard link": lambda path, other: (other.write_bytes(b""), path.hardlink_to(other)),
    "pipe": lambda path, other: os.mkfifo(path),
    "folder": lambda path, other: path.mkdir(),
}


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_no_plain_file_is_refused_in_its_place_and_beside_it(path, tmp_path, suffix, strange):
    """At once, and also where the user chose the place (RLSTUDIO_DB)."""
    path.parent.mkdir()
    other = tmp_path / "elsewhere.db"
    STRANGE[strange](path.with_name(path.name + suffix), other)
    with pytest.raises(UserError, match=rf"store\.db{suffix}: is not a plain file with one name; put a copy") as caught:
        opened(path)
    one_line(caught)
    assert not other.exists() or other.read_bytes() == b""
    assert not suffix or not path.exists()


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught:
        opened(tmp_path / "file" / "store.db")
    assert str(tmp_path / "file") in one_line(caught)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /mnt/our\\040disk nfs4 rw 0 0
/dev/vdb /mnt/our\\040disk/local ext4 rw 0 0
auto /data autofs rw 0 0
//server/data /data cifs rw 0 0
server:/old /scratch nfs rw 0 0
/dev/vdc /scratch tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me", "ext4"),
        ("/mnt/our disk/me", "nfs4"),
        ("/mnt/our disk", "nfs4"),
        ("/mnt/our disks", "ext4"),
        ("/mnt/our disk/local/me", "ext4"),
        ("/data/x", "cifs"),
        ("/scratch", "tmpfs"),
    ],
)
def test_which_disk_a_folder_is_on(monkeypatch, folder, kind):
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: MOUNTS)
    assert sqlite_file._disk(Path(folder)) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"])
def test_a_network_disk_is_refused(path, monkeypatch, kind):
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: f"/dev/vda / ext4 rw 0 0\nx {path.parents[1]} {kind} rw 0 0\n")
    with pytest.raises(UserError, match=rf"network disk \({kind}\).*RLSTUDIO_HOME.*RLSTUDIO_DB=postgresql") as caught:
        opened(path)
    one_line(caught)
    assert not path.exists()


def test_no_mounts_are_no_obstacle(path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: "")
    assert opened(path).count() == 0


# -- damage -----------------------------------------------------------------------------------------------------------


def garbage(data: bytes) -> bytes:
    return b"not a database at all, but something else entirely" * 100


def overwritten(data: bytes) -> bytes:
    return data[:100] + bytes(len(data) - 100)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("damage", [garbage, overwritten, cut])
def test_damage_is_told_with_the_way_out(path, damage):
    store = opened(path)
    for _ in range(30):
        in_state(store, S.QUEUED)
    store.database.close()
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"damaged \(.*put it aside .*rlctl adopt RUN_FOLDER$") as caught:
        opened(path).runs()
    one_line(caught)
    assert path.read_bytes() == before


@pytest.mark.parametrize("column", ["tags", "desired", "imports", "lineage"])
def test_a_damaged_row_is_told_with_its_run(path, column):
    """Another program wrote to the store, or its disk lost a bit."""
    store = opened(path)
    run = store.create(request())
    with sqlite3.connect(path) as connection:
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute(f"update run set {column} = '{{'")
    with pytest.raises(StorageError, match=f"run '{run.id}': its row in the store is damaged") as caught:
        (store.get(run.id), store.consent(run.id), store.lineage(run.id))
    assert "rlctl adopt" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reason_of_a_newer_version_hides_no_run(path):
    store = opened(path)
    run = in_state(store, S.FAILED)
    with sqlite3.connect(path) as connection:
        connection.execute("update run set reason = 'invented_later'")
        connection.execute("update event set reason = 'invented_later'")
    assert [found.id for found in store.runs()] == [run.id]
    assert {found.reason for found in (store.get(run.id), *store.events(run.id))} == {Reason.NONE}


def test_a_full_disk_is_told_and_nothing_is_changed(path):
    store = opened(path)
    run = in_state(store, S.RUNNING)
    with store.database.read() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar()
    store.database.engine.dispose()
    limited = store.database.engine
    from sqlalchemy import event

    event.listen(limited, "connect", lambda connection, _: connection.execute(f"PRAGMA max_page_count={pages}"))
    with pytest.raises(StorageError, match="full"):
        store.create(request(config_yaml="x" * 200_000))
    assert store.runs() == [run]


# -- locks ------------------------------------------------------------------------------------------------------------


def test_a_store_held_for_too_long_is_busy_and_unchanged(path, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
    store = opened(path)
    run = in_state(store, S.RUNNING)
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    acts = (
        lambda: store.create(request(), key="k"),
        lambda: store.move(run.id, run.token, S.COMPLETED),
        lambda: store.beat(run.id, run.token, 1, {}),
        lambda: store.publish(run.id, run.token, []),
        lambda: store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, ""),
        lambda: store.remove(run.id),
    )
    for act in acts:
        with pytest.raises(StoreBusy, match=r"another process has held the store for 0.05 s; try again$") as caught:
            act()
        assert caught.value.exit_code == 75
    assert store.runs() == [run]  # reading goes on
    held.execute("ROLLBACK")
    held.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy):
        store.runs()
    with pytest.raises(StoreBusy):
        opened(path)
    held.close()
    assert store.runs() == [run]
    assert store.create(request(), key="k").state == S.QUEUED
    assert_history(store, run.id)


def test_a_row_held_for_too_long_is_busy_and_unchanged(postgres_url, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
    store = Store(Database(postgres_url))
    run, other = in_state(store, S.RUNNING), in_state(store, S.RUNNING)
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as held:
        held.execute("SELECT * FROM run WHERE id = %s FOR UPDATE", [run.id])
        with pytest.raises(StoreBusy, match=r"held the store for 0.05 s; try again$"):
            store.beat(run.id, run.token, 1, {})
        assert store.get(run.id) == run
        store.beat(other.id, other.token, 1, {})  # only that row
    store.beat(run.id, run.token, 1, {})
    store.database.close()


def test_who_freezes_inside_a_transaction_loses_it(postgres_url, monkeypatch):
    store = Store(Database(postgres_url))
    run = in_state(store, S.RUNNING)
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.2)  # of the one that freezes
    frozen = Store(Database(postgres_url))

    def freeze():
        with frozen.database.write() as connection:
            connection.execute(text("UPDATE run SET progress = 99"))
            while store.get(run.id).progress != 5:
                try:
                    store.beat(run.id, run.token, 5, {})  # until the server has ended the other
                except StoreBusy:
                    continue

    with pytest.raises(StorageError):
        freeze()
    assert store.get(run.id).progress == 5
    frozen.beat(run.id, run.token, 6, {})  # and a new connection is made
    store.database.close(), frozen.database.close()


def test_a_server_that_was_restarted_is_found_again(postgres_url):
    store = Store(Database(postgres_url))
    run = in_state(store, S.RUNNING)
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
    store.beat(run.id, run.token, 1, {})
    assert store.get(run.id).progress == 1
    store.database.close()


def cut_before(store: Store, statement: int, admin: psycopg.Connection) -> Callable[[], None]:
    """From now on the server ends our connection before this statement, counted from 1; returns how to stop that."""
    numbers = count(1)

    def cut(connection, *_):
        if next(numbers) == statement:
            pid = connection.connection.dbapi_connection.info.backend_pid
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])
            while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
                time.sleep(0.001)

    event.listen(store.database.engine, "before_cursor_execute", cut)
    return lambda: event.remove(store.database.engine, "before_cursor_execute", cut)


def test_a_connection_that_is_cut_between_two_statements_changes_nothing(postgres_url):
    """Each change of the store, cut before each of its statements: one line, nothing changed, it can be repeated."""
    store = Store(Database(postgres_url))
    tables = ("run", "event", "checkpoint", "idempotency_key")

    def rows(admin):
        return [admin.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]

    published = [{"step": 1, "state_hash": "a" * 64, "manifest_sha256": "b" * 64}]
    run: dict[str, str] = {}
    changes = [
        lambda: run.setdefault("id", store.create(request(), key="once").id),
        lambda: store.claim(run["id"], owner(1)),
        lambda: store.hand_over(run["id"], 1, owner(2)),
        lambda: store.move(run["id"], 1, S.RUNNING),
        lambda: store.beat(run["id"], 1, 5, {"epoch": 1}),
        lambda: store.publish(run["id"], 1, published),
        lambda: store.move(run["id"], 1, S.INTERRUPTED, Reason.SIGNAL),
        lambda: store.resume(run["id"], Reason.RESUMED),
    ]
    messages: list[str] = []
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as admin:
        for change in changes:
            for statement in count(1):
                before = rows(admin)
                stop = cut_before(store, statement, admin)
                try:
                    change()
                    break  # it has fewer statements
                except StorageError as error:
                    messages.append(str(error))
                finally:
                    stop()
                assert rows(admin) == before
            assert rows(admin) != before
    assert len(messages) >= 2 * len(changes)
    assert not any("\n" in message for message in messages)
    assert_history(store, run["id"])
    store.database.close()


def test_a_forked_child_leaves_its_parents_transaction_alone(path):
    """Environments are forked while the heartbeat is sent: a connection that dies with the child must not roll back."""
    store = opened(path)
    run = in_state(store, S.RUNNING)
    with store.database.write() as connection:
        connection.execute(text("UPDATE run SET progress = 41"))
        connection.execute(text("UPDATE run SET progress = 42"))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                import gc

                del connection
                gc.collect()
                code = 0 if store.get(run.id).progress == 0 else 2  # through a connection of its own
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert (path.parent / "store.db-journal").exists()
    assert store.get(run.id).progress == 42


def test_the_at_fork_hook_is_set_once(tmp_path, monkeypatch):
    hooks = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.append(given))
    monkeypatch.setattr(process, "_called_in_children", set())
    for number in range(3):
        opened(tmp_path / f"{number}.db").database.close()
    assert len(hooks) == 1


# -- addresses --------------------------------------------------------------------------------------------------------


def test_an_unreachable_server_is_told_in_one_line():
    url = "postgresql://ada:hunter2@/lab?host=/nowhere/at/all&port=5432"
    with pytest.raises(StorageError, match=r"^postgresql://ada:\*\*\*@/lab\S*: connection .*No such file") as caught:
        Database(url)
    assert "hunter2" not in one_line(caught)
    assert caught.value.exit_code == 3


def test_a_refused_connection_and_an_unknown_database(postgres):
    with pytest.raises(StorageError, match="Connection refused") as caught:
        Database("postgresql://ada@127.0.0.1:1/lab")
    one_line(caught)
    with pytest.raises(StorageError, match='database "locked" does not exist') as caught:  # a name, and not busy
        Database(postgres.url("locked"))
    one_line(caught)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hunter2@host/lab",
        "postgresql+psycopg://ada:hunter2@host:5433/lab?sslmode=require",
        "postgresql://ada@host/lab?password=hunter2",
        "postgresql://ada@host/lab?sslpassword=hunter2&sslmode=require",
        "postgresql://ada:hunter2@host:port/lab",
        "postgresql://ada:hun/ter2:hunter2@host/lab",
        "mysql://ada:hunter2@host/lab",
        "ada:hunter2@host/lab",
        "postgresql+nonsense://ada:hunter2@host/lab",
    ],
)
def test_no_password_is_ever_shown(url, monkeypatch):
    monkeypatch.setattr(migrations, "bring_up_to_date", lambda *_: None)
    try:
        message = Database(url).where
        assert message.startswith("postgresql")
        assert "host" in message
    except UserError as error:
        message = str(error)
        assert message.startswith("RLSTUDIO_DB: ")
        assert "give postgresql://user@host/name" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://x/y", "oracle+odd://x", "http://x"]
)
def test_an_address_of_something_else_is_the_users_mistake(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^RLSTUDIO_DB: .*; give postgresql://user@host/name, or unset it for SQLite$"):
        Database(url)
    assert os.listdir(tmp_path) == []


def test_without_the_driver_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match=r'^RLSTUDIO_DB: needs psycopg; run `pip install "psycopg\[binary\]>=3.2,<4"`$'):
        Database("postgresql+psycopg://ada@host/lab")


def test_looking_is_light(path):
    """Commands that only look at the store start at once: no torch, no environments."""
    code = (
        "import sys; from rlstudio.control.store.store import Store;"
        "from rlstudio.control.store.database import Database;"
        f"Store(Database('sqlite:///{path}')).runs();"
        "print([name for name in ('torch', 'gymnasium', 'psycopg', 'pydantic') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- versions ---------------------------------------------------------------------------------------------------------


def tables(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in rows}  # an added column stands in a line with the one before


def rows(path: Path) -> dict[str, list]:
    connection = sqlite3.connect(path)
    found = {
        table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables(path) if "_by_" not in table
    }
    connection.close()
    return found


@pytest.fixture
def golden(path) -> Path:
    path.parent.mkdir()
    shutil.copy(GOLDEN / "store-v1.db", path)
    return path


def test_a_store_of_version_1_opens_and_reads(golden):
    store = opened(golden)
    assert store.count() == len(RunState) + 1
    for state in RunState:
        (run,) = store.runs(name=f"is {state}")
        assert run.state == state
        assert_history(store, run.id)
    (run,) = store.runs(name="whole ü")
    assert (run.state, run.reason, run.message, run.seed, run.max_retries) == (S.INTERRUPTED, "user", "as asked", 7, 2)
    assert (run.env_steps, run.status.eval_interval, run.process) == (640, (20.0, 23.0), owner())
    assert store.lineage(run.id) == {"git": "1f2e"}
    assert store.config_yaml(run.id) == "a: 1\n"
    assert [entry.step for entry in store.checkpoints(run.id)] == [640]
    assert store.create(request(), key="launch-1") == run
    going = store.resume(run.id, owner=owner(2))  # and goes on
    assert store.move(run.id, going.token, S.RUNNING).token == run.token + 1
    assert all(run.is_owned for run in store.runs(states=OWNED))


def test_a_store_brought_up_to_date_has_the_tables_of_a_new_one(golden, tmp_path):
    """If this fails, `schema` was changed without a new version and a step in `migrations`."""
    opened(golden).database.close()
    opened(tmp_path / "new.db").database.close()
    assert tables(golden) == tables(tmp_path / "new.db")


@pytest.fixture
def version_2(monkeypatch):
    """A later RLStudio, which knows one column more."""

    def step(connection):
        connection.execute(text("ALTER TABLE run ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'"))
        connection.execute(text("UPDATE run SET mood = 'happy' WHERE state = 'COMPLETED'"))

    monkeypatch.setattr(migrations, "VERSION", 2)
    monkeypatch.setattr(migrations, "STEPS", {1: step})


def test_an_older_store_is_brought_up_to_date_and_a_copy_kept(golden, version_2):
    before = rows(golden)
    store = opened(golden)
    assert store.count() == len(RunState) + 1
    after = rows(golden)
    assert after["schema_version"] == [(2,)]
    assert [row[:-1] for row in after["run"]] == before["run"]
    assert sorted(row[-1] for row in after["run"]) == ["calm"] * len(RunState) + ["happy"]
    assert {name: found for name, found in after.items() if name not in ("run", "schema_version")} == {
        name: found for name, found in before.items() if name not in ("run", "schema_version")
    }
    copy = golden.with_name("store-version-1.db")
    assert rows(copy) == before
    assert modes(golden.parent) == {
        "state": modes(golden.parent)["state"],
        "store.db": 0o644 & modes(golden.parent)["store.db"] | 0o600,
        copy.name: 0o600,
    }
    copy.unlink()
    opened(golden)
    assert not copy.exists()  # nothing to be done any more


def test_two_bring_it_up_to_date_at_once(golden, version_2, monkeypatch):
    before, steps = rows(golden), []
    step = migrations.STEPS[1]
    migrations.STEPS[1] = lambda connection: (steps.append(1), step(connection))
    together = threading.Barrier(4)
    stored_version = migrations.stored_version

    def read_together(connection):
        version = stored_version(connection)
        if connection.get_execution_options().get("rlstudio_reads"):
            together.wait()  # all have read version 1 before one of them begins
        return version

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "stored_version", read_together)
        threads = [threading.Thread(target=opened, args=(golden,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert steps == [1]
    assert rows(golden.with_name("store-version-1.db")) == before  # the copy is of before, not of between
    assert rows(golden)["schema_version"] == [(2,)]


def test_a_step_that_fails_leaves_the_store_as_it_was(golden, version_2):
    before, content = rows(golden), golden.read_bytes()
    step = migrations.STEPS[1]

    def fails(connection):
        step(connection)
        connection.execute(text("UPDATE run SET nonsense = 1"))

    migrations.STEPS[1] = fails
    with pytest.raises(StorageError, match="nonsense"):
        opened(golden)
    assert (rows(golden), golden.read_bytes()) == (before, content)
    assert rows(golden.with_name("store-version-1.db")) == before
    migrations.STEPS[1] = step
    opened(golden)
    assert rows(golden)["schema_version"] == [(2,)]


def test_without_room_for_a_copy_nothing_is_begun(golden, version_2, monkeypatch):
    content = golden.read_bytes()
    golden.with_name(".store-version-1.db.part").mkdir()
    with pytest.raises(StorageError, match="could not be copied before its upgrade"):
        opened(golden)
    assert golden.read_bytes() == content


def test_an_older_store_on_postgresql(postgres_url, version_2, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(migrations, "VERSION", 1)
        store = Store(Database(postgres_url))
        run = in_state(store, S.COMPLETED)
        store.database.close()
    step = migrations.STEPS[1]
    migrations.STEPS[1] = lambda connection: (step(connection), connection.execute(text("SELECT nonsense")))
    with pytest.raises(StorageError, match="nonsense"):
        Database(postgres_url)
    migrations.STEPS[1] = step
    store = Store(Database(postgres_url))
    assert store.get(run.id) == run
    with store.database.read() as connection:
        assert connection.execute(text("SELECT mood FROM run")).scalar() == "happy"
    store.database.close()


def test_a_newer_store_is_refused_and_unchanged(url, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "VERSION", 7)
        store = Store(Database(url))
        run = in_state(store, S.RUNNING)
        store.database.close()
    file = Path(url.removeprefix("sqlite:///"))
    content = file.read_bytes() if file.exists() else None
    with pytest.raises(
        UserError, match=r"version 7, .* knows up to 4; upgrade RLStudio, or set RLSTUDIO_HOME"
    ) as caught:
        Database(url)
    one_line(caught)
    assert content == (file.read_bytes() if file.exists() else None)
    monkeypatch.setattr(migrations, "VERSION", 7)
    store = Store(Database(url))
    assert store.get(run.id) == run
    store.database.close()


def test_many_make_a_new_store_at_once(url):
    """Two commands, started together in an empty place."""
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(Database(url)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    run = in_state(stores[0], S.QUEUED)
    assert [store.get(run.id) for store in stores] == [run] * 6
    with stores[0].database.read() as connection:
        assert connection.execute(text("SELECT number FROM schema_version")).scalars().all() == [migrations.VERSION]
    for store in stores:
        store.database.close()


def test_connections_that_are_not_kept(url):
    database = Database(url, pooled=False)
    run = Store(database).create(request())
    assert Store(database).get(run.id) == run
    assert database.engine.pool.status() == "NullPool"
