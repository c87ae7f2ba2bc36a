"""Many processes on one store, and writers that are killed: nothing is lost, nothing is told twice, nothing is torn."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import event

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.core.errors import Conflict
from rlstudio.core.run_state import Reason
from support.control_world import S, assert_history, in_state, owner, request
from support.processes import fork

PROCESSES = 8

pytestmark = pytest.mark.real_process


# -- launches ---------------------------------------------------------------------------------------------------------


def launches(url: str, number: int, rounds: int, output: Path) -> None:
    """Some with a key that all share, some with a key of our own (and then again, as after a lost answer), most
    without."""
    store = Store(Database(url))
    got: list[tuple[str | None, str]] = []
    for count in range(5 * rounds):
        key = {0: f"shared-{count}", 1: f"own-{number}-{count}"}.get(count % 5)
        got.append((key, store.create(request(), key=key).id))
        if count % 5 == 1:
            got.append((key, store.create(request(), key=key).id))
    output.write_text(json.dumps(got))
    store.database.close()


@pytest.mark.parametrize("rounds", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_launches_of_many_processes_at_once(url, tmp_path, rounds):
    Database(url).close()
    ready, go = os.pipe()
    files = [tmp_path / f"{number}.json" for number in range(PROCESSES)]

    def act(number: int) -> None:
        os.close(go)
        os.read(ready, 1)  # returns when the parent closes its end: all begin together
        launches(url, number, rounds, files[number])

    pids = [fork(lambda number=number: act(number)) for number in range(PROCESSES)]
    os.close(go)
    os.close(ready)
    store, seen, looks, codes = Store(Database(url)), 0, 0, []
    while pids:
        found = len(store.runs())  # a reader beside them
        assert found >= seen
        seen, looks = found, looks + 1
        pid, code = os.waitpid(pids[0], os.WNOHANG)
        if pid:
            pids.pop(0)
            codes.append(code)
    assert codes == [0] * PROCESSES

    got = [tuple(entry) for file in files for entry in json.loads(file.read_text())]
    assert len(got) == PROCESSES * 6 * rounds
    of_key: dict[str, set[str]] = {}
    for key, run_id in got:
        if key:
            of_key.setdefault(key, set()).add(run_id)
    assert len(of_key) == rounds + rounds * PROCESSES
    assert all(len(ids) == 1 for ids in of_key.values())  # one run per key
    free = Counter(run_id for key, run_id in got if not key)
    assert len(free) == 3 * rounds * PROCESSES  # and one per launch without
    assert store.ids() == set(free) | {run_id for ids in of_key.values() for run_id in ids}
    assert store.count() == 4 * rounds * PROCESSES + rounds
    for run in store.runs():
        assert [entry.state for entry in store.events(run.id)] == [S.QUEUED]
    store.database.close()
    print(f"{len(got)} launches, {store.count()} runs, {looks} looks")


def test_claims_of_many_processes_at_once(url, tmp_path):
    """Every queued run gets exactly one owner."""
    store = Store(Database(url))
    queued = [store.create(request()).id for _ in range(20)]
    files = [tmp_path / f"{number}.json" for number in range(4)]

    def act(number: int) -> None:
        mine, got = Store(Database(url)), []
        for run_id in queued:
            try:
                got.append((run_id, mine.claim(run_id, owner(number)).token))
            except Conflict:
                continue
        files[number].write_text(json.dumps(got))

    codes = [os.waitpid(pid, 0)[1] for pid in [fork(lambda number=number: act(number)) for number in range(4)]]
    assert codes == [0] * 4
    claimed = [run_id for file in files for run_id, token in json.loads(file.read_text())]
    assert sorted(claimed) == sorted(queued)
    assert {(run.state, run.token, run.attempt) for run in store.runs()} == {(S.STARTING, 1, 1)}
    store.database.close()


# -- kills ------------------------------------------------------------------------------------------------------------


def step(store: Store, run_id: str) -> None:
    """The next in a round of all the moves there are."""
    run = store.get(run_id)
    if run.state == S.QUEUED and run.version % 5 == 0:
        store.pause(run_id)
    elif run.state == S.QUEUED:
        store.claim(run_id, owner())
    elif run.state == S.STARTING:
        store.move(run_id, run.token, S.RUNNING)
    elif run.state == S.RUNNING:
        store.beat(run_id, run.token, run.progress + 1, {"env_steps": run.env_steps + 1})
        store.publish(run_id, run.token, [{"step": run.env_steps, "state_hash": "h", "manifest_sha256": "m"}])
        if run.attempt % 3 == 0:
            store.ask(run_id, Desired.STOP)
        elif run.attempt % 3 == 1:
            store.pause(run_id)
        else:
            store.move(run_id, run.token, S.INTERRUPTED, Reason.SIGNAL)
    elif run.state == S.STOPPING:
        store.reap(run_id, run.token, run.heartbeat, Reason.ORPHANED, "gone")
    elif run.is_paused:
        store.release(run_id)
    elif run.may_retry:
        store.pause(run_id)  # two moves at once
    else:
        store.resume(run_id)


def assert_sound(path: Path) -> int:
    """Of a store whose writer was killed; returns how many moves it has seen."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    store = Store(Database(f"sqlite:///{path}"))
    runs = store.runs()
    for run in runs:
        assert_history(store, run.id)
    store.database.close()
    return sum(run.version for run in runs)


@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_writers_killed_at_any_time(tmp_path, kills):
    path = tmp_path / "store.db"
    store = Store(Database(f"sqlite:///{path}"))
    run_id = store.create(request(max_retries=1_000_000)).id
    store.database.close()
    rng, seen, journals = random.Random(3), 0, 0
    for _ in range(kills):
        begun, begin = os.pipe()

        def act(begin: int = begin) -> None:
            writer = Store(Database(f"sqlite:///{path}"))
            step(writer, run_id)
            os.write(begin, b".")  # one move was acknowledged
            while True:
                step(writer, run_id)

        pid = fork(act)
        os.read(begun, 1)
        signal.sigtimedwait([], rng.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        os.close(begun), os.close(begin)
        journals += path.with_name("store.db-journal").exists()
        moves = assert_sound(path)
        assert moves > seen  # what was acknowledged stays
        seen = moves
    print(f"{kills} kills, {journals} with a journal left, {seen} moves")


def operations(store: Store, kill_at: int | None = None) -> list[int]:
    """Count what SQLite's machine does from now on; killed before operation `kill_at`."""
    done = [0]

    def count() -> int:
        done[0] += 1
        if done[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA cache_size=1")  # pages reach the file before the commit: a journal to roll back
        connection.set_progress_handler(count, 1)

    event.listen(store.database.engine, "connect", set_up)
    store.database.engine.dispose()  # it connects anew
    return done


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda store, run: store.create(request(config_yaml="x" * 20_000), key="k"), id="create"),
        pytest.param(lambda store, run: store.move(run.id, run.token, S.COMPLETED, message="y" * 20_000), id="move"),
        pytest.param(
            lambda store, run: store.reap(run.id, run.token, run.heartbeat, Reason.HUNG, "z" * 9000), id="reap"
        ),
        pytest.param(lambda store, run: store.pause(run.id), id="pause"),
    ],
)
@pytest.mark.parametrize("every", [83, pytest.param(9, marks=pytest.mark.slow)])
def test_a_writer_killed_at_every_point_of_a_transaction(tmp_path, act, every):
    path = tmp_path / "store.db"
    store = Store(Database(f"sqlite:///{path}"))
    run = in_state(store, S.RUNNING)
    store.database.close()
    before = path.read_bytes()

    counting = Store(Database(f"sqlite:///{path}"))
    done = operations(counting)
    act(counting, run)
    counting.database.close()
    whole = assert_sound(path)
    assert done[0] > 100

    journals, points = 0, range(1, done[0], every)
    for point in points:
        path.with_name("store.db-journal").unlink(missing_ok=True)
        path.write_bytes(before)

        def killed(point: int = point) -> None:
            writer = Store(Database(f"sqlite:///{path}"))
            operations(writer, point)
            act(writer, run)

        assert os.waitpid(fork(killed), 0)[1] == signal.SIGKILL
        journals += path.with_name("store.db-journal").exists()
        assert assert_sound(path) in (3, whole)  # all of it, or nothing
    assert journals > len(points) // 4  # of those a writer had begun to change the file
    print(f"{len(points)} points of {done[0]} operations, {journals} rolled back")
