"""Looking never writes, below the command line: every Python getter, on SQLite and on PostgreSQL, and a SQLite file in
each condition that its writers may leave it in."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.control.store import migrations, sqlite_file
from rlstudio.control.store.database import Database, ReadOnlyDatabase
from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.store import Store
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import RLStudioError, StorageError, StoreBusy, UserError
from rlstudio.orchestrator import Run
from support.control_world import S, in_state, request
from support.golden_store import GOLDEN
from support.reading_world import ReadingWorld, fill, tables, tree

ACTIONS = {"resume", "session", "fork", "stop", "pause", "cancel", "wait", "tag", "untag", "write_note"} | {
    "repeat",
    "reproduce",
    "rewind",
}
GETTERS = sorted(name for name in vars(Run) if not name.startswith("_") and name not in ACTIONS)


@pytest.fixture
def world(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReadingWorld:
    """In `runs`, with the store at `url`."""
    monkeypatch.setenv("RLSTUDIO_DB", url)
    workspace = Workspace(tmp_path / "runs")
    made = fill(workspace)
    workspace.store.database.close()
    return made


@pytest.fixture
def unchanged(url: str, world: ReadingWorld, tmp_path: Path) -> Callable[[], None]:
    """Complains where a row, a file or a folder is not as it was."""
    rows, files = tables(url), tree(tmp_path)

    def compare() -> None:
        assert tree(tmp_path) == files
        assert tables(url) == rows

    return compare


def test_the_getters_are_those_that_are_known() -> None:
    known = [
        "agent",
        "config",
        "evaluate",
        "handle",
        "history",
        "lineage",
        "metrics",
        "note",
        "parent",
        "path",
        "recorded",
        "state",
        "status",
        "tags",
    ]
    assert known == GETTERS


def test_no_getter_changes_anything(world: ReadingWorld, unchanged: Callable[[], None], tmp_path: Path) -> None:
    answered = dict.fromkeys(GETTERS, 0)
    runs = [orchestrator.get(run_id, runs_dir=tmp_path / "runs") for run_id in vars(world).values()]
    unchanged()
    for getter in GETTERS:
        for run in runs:
            try:
                value = getattr(run, getter)
                _ = value() if callable(value) else value
                answered[getter] += 1
            except RLStudioError:
                pass  # a run that has no folder yet, or no checkpoint, says so
        unchanged()
    assert all(answered.values()), "no run gave a value, so nothing was tried"


def test_no_list_changes_anything(world: ReadingWorld, unchanged: Callable[[], None], tmp_path: Path) -> None:
    runs = {run.id: run for run in orchestrator.runs(runs_dir=tmp_path / "runs")}
    assert set(runs) == set(vars(world).values())
    assert (runs[world.dead].state, runs[world.dead].recorded) == (S.INTERRUPTED, False)
    assert (runs[world.living].state, runs[world.living].recorded) == (S.RUNNING, True)
    assert "interrupted (orphaned)" in repr(runs[world.dead])
    unchanged()


def test_no_command_changes_anything(world: ReadingWorld, unchanged: Callable[[], None], tmp_path: Path) -> None:
    for line in ("ls", "ls --json", "show dead", "show dead --lineage", "queue", "models cartpole", "sweep ls", "gc"):
        assert main([*line.split(), "--runs-dir", str(tmp_path / "runs")]) == 0
        unchanged()


def test_stopping_from_python_records_it(world: ReadingWorld, tmp_path: Path) -> None:
    run = orchestrator.get(world.dead, runs_dir=tmp_path / "runs")
    with pytest.raises(RLStudioError, match="INTERRUPTED; there is nothing to stop"):
        run.stop()
    assert run.recorded
    assert [event.state for event in run.history()][-1] == S.INTERRUPTED


# -- a store that is opened to look -----------------------------------------------------------------------------------


def test_it_accepts_no_writing(url: str) -> None:
    Database(url).close()
    database = ReadOnlyDatabase(url)
    with pytest.raises(RuntimeError, match="open for reading only"):
        Store(database).create(request())
    with pytest.raises(StorageError, match=r"readonly|read-only"), database.read() as connection:
        connection.exec_driver_sql("DELETE FROM run")
    assert StoreReader(database).count() == 0
    database.close()


def test_it_sees_what_others_do_meanwhile(url: str) -> None:
    looking = StoreReader(ReadOnlyDatabase(url))
    assert looking.runs() == []  # nothing is there yet, and nothing is made
    store = Store(Database(url))
    run = in_state(store, S.RUNNING)
    assert looking.runs() == [run]
    store.beat(run.id, run.token, 7, {})
    assert looking.get(run.id).progress == 7
    store.database.close()
    looking.database.close()


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, postgres_url: str) -> None:
    assert StoreReader(ReadOnlyDatabase(f"sqlite:///{tmp_path}/state/store.db")).count() == 0
    assert list(tmp_path.iterdir()) == []
    assert StoreReader(ReadOnlyDatabase(postgres_url)).count() == 0
    with ReadOnlyDatabase(postgres_url).engine.connect() as connection:
        assert migrations.stored_version(connection) is None


def test_an_older_server_is_refused_with_the_way_out_and_a_newer_one_too(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Database(postgres_url).close()
    looking = StoreReader(ReadOnlyDatabase(postgres_url))
    monkeypatch.setattr(migrations, "VERSION", migrations.VERSION + 1)
    with pytest.raises(UserError, match=r"bring it up to date with: rlctl migrate") as caught:
        looking.count()
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(migrations, "VERSION", 1)
    with pytest.raises(UserError, match="upgrade RLStudio"):
        looking.count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder / "store.db"


def looking_at(path: Path) -> StoreReader:
    return StoreReader(ReadOnlyDatabase(f"sqlite:///{path}"))


def test_a_newer_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(f"sqlite:///{path}").close()
    monkeypatch.setattr(migrations, "VERSION", 1)
    with pytest.raises(UserError, match="upgrade RLStudio"):
        looking_at(path).count()


def test_an_older_file_is_read_as_it_will_be(path: Path, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "store-v1.db", path)
    before = tree(tmp_path)
    runs = looking_at(path).runs()
    assert tree(tmp_path) == before
    store = Store(Database(f"sqlite:///{path}"))
    assert store.runs() == runs
    assert runs
    store.database.close()


def with_write_ahead_log(path: Path) -> sqlite3.Connection:
    """As an RLStudio that used one may have left it; the connection keeps what it wrote in the log."""
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    connection.execute("UPDATE run SET progress = 5")
    return connection


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_with_a_write_ahead_log_is_read_without_touching_it(path: Path, tmp_path: Path, is_open: bool) -> None:
    store = Store(Database(f"sqlite:///{path}"))
    run = in_state(store, S.RUNNING)
    store.database.close()
    with closing(with_write_ahead_log(path)) as writer:
        assert path.with_name("store.db-wal").stat().st_size > 0
        if not is_open:
            writer.close()  # which puts the log into the file and removes it
        before = tree(tmp_path)
        assert looking_at(path).get(run.id).progress == 5
        assert tree(tmp_path) == before


KILLED = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE run SET progress = 9")
connection.execute("CREATE TABLE large (value)")
for number in range(2000):
    connection.execute("INSERT INTO large VALUES (?)", ["x" * 1000])
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_writer(path: Path) -> None:
    """In the midst of its transaction."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert path.with_name("store.db-journal").stat().st_size > 0


def test_what_a_writer_left_that_is_killed_while_somebody_begins_to_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was in order when it was opened, and is not when it is read for the first time."""
    store = Store(Database(f"sqlite:///{path}"))
    run = in_state(store, S.RUNNING)
    store.database.close()
    opened, open_to_read = [], sqlite_file.open_to_read

    def open_and_kill(*args: Any) -> sqlite3.Connection:
        opened.append(open_to_read(*args))
        if len(opened) == 2:
            kill_a_writer(path)
        return opened[-1]

    monkeypatch.setattr(sqlite_file, "open_to_read", open_and_kill)
    looks = looking_at(path)
    assert looks.runs() == [run]
    assert len(opened) == 1
    assert looks.runs() == [run]
    assert len(opened) == 3  # the one that was in order, and a repaired copy


def test_what_a_killed_writer_left_is_read_without_its_transaction(path: Path, tmp_path: Path) -> None:
    """Half of a transaction is in the file. Rolling it back is for whoever acts; who looks does so in a copy."""
    store = Store(Database(f"sqlite:///{path}"))
    run = in_state(store, S.RUNNING)
    store.database.close()
    kill_a_writer(path)
    before = tree(tmp_path)
    assert looking_at(path).runs() == [run]
    assert tree(tmp_path) == before
    store = Store(Database(f"sqlite:///{path}"))
    assert store.runs() == [run]
    assert not path.with_name("store.db-journal").exists()
    store.database.close()


def test_a_copy_of_what_changes_all_the_time_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
    numbers = iter(range(1000))
    monkeypatch.setattr(sqlite_file, "_fingerprint", lambda _: next(numbers))
    with pytest.raises(StoreBusy, match="try again"):
        looking_at(path).count()


def test_damage_is_told_to_who_looks(path: Path) -> None:
    path.write_bytes(b"no database at all " * 300)
    with pytest.raises(StorageError, match="rlctl adopt RUN_FOLDER"):
        looking_at(path).count()


def test_a_link_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path}/other.db").close()
    path.symlink_to(tmp_path / "other.db")
    with pytest.raises(UserError, match="is not a plain file"):
        looking_at(path).count()


def test_a_second_database_of_one_process_leaves_the_locks_of_the_first(path: Path) -> None:
    """Closing a descriptor of a file drops every lock of the process on it: the file is never opened by hand."""
    store = Store(Database(f"sqlite:///{path}"))
    in_state(store, S.RUNNING)
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE run SET progress = 3")
        Database(f"sqlite:///{path}", pooled=False).close()
        assert looking_at(path).count() == 1
        done: Any = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, text=True)
        assert "database is locked" in done.stderr
    store.database.close()
    assert os.path.getsize(path) > 0
