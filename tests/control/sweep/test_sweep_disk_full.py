"""The disk is full, or broken, from any change on that a sweep makes to its own state: it says so in one line, and goes
on where it was once there is room. The changes are those of SQLite itself: journal, pages and the unlink that commits.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.driver import Driver
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, Trial, TrialState
from rlstudio.core.errors import StorageError
from rlstudio.core.run_state import RunState
from rlstudio.storage import failpoint
from support.control_world import clear
from support.deadlines import SLOWNESS
from support.sqlite_faults import sqlite_passes_failpoints
from support.sweep_world import FakeWorker, drive, new_driver, search_of

pytestmark = pytest.mark.timeout(1200 * SLOWNESS)  # the slow ones make a few hundred sweeps each

SMALL: dict[str, Any] = {"trials": 3, "pruner": {"kind": "asha", "rungs": [3], "eta": 3}, "deterministic": True}


class Disk:
    """Refuses every change from the n-th on, until there is room again; the n-th after half of its bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self._patch, self._kind = monkeypatch, kind
        self._first, self._watched = 0, False
        self.count = 0

    def full_from(self, change: int) -> None:
        self._first, self.count = change, 0
        failpoint.restart(self._pass)

    def room(self) -> None:
        self.full_from(0)

    def watch(self, watched: bool) -> None:
        """Only what the sweep itself does is counted; its runs have disks of their own."""
        self._watched = watched

    def _pass(self, operation: failpoint.Operation) -> None:
        self._patch.delenv(failpoint.VARIABLE, raising=False)
        if not self._watched:
            return
        self.count += 1
        if self._first and self.count == self._first:
            self._patch.setenv(failpoint.VARIABLE, f"{failpoint.passed()}:{self._kind}")
        elif self._first and self.count > self._first:
            code = errno.ENOSPC if self._kind == "enospc" else errno.EIO
            raise OSError(code, os.strerror(code))


class Watched(FakeWorker):
    """Its own work is not the sweep's."""

    disk: Disk

    def work(self, amount: int = 1) -> None:
        self.disk.watch(False)
        super().work(amount)
        self.disk.watch(True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Store]:
    with sqlite_passes_failpoints():
        database = Database(f"sqlite:///{tmp_path}/store.db")
        yield Store(database)
        failpoint.restart()
        database.close()


def decisions(trials: list[Trial]) -> list[Any]:
    return [(trial.number, dict(trial.params), trial.state, trial.results) for trial in trials]


@pytest.mark.parametrize("kind", ["enospc", "eio"])
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 67])
def test_every_change_of_a_sweep(place: Store, monkeypatch: pytest.MonkeyPatch, kind: str, every: int) -> None:
    """The quick suite visits every sixty-seventh, which comes to all places within a transaction."""
    search, disk = search_of(**SMALL), Disk(monkeypatch, kind)
    database = place.database
    worker = Watched(Database(f"sqlite:///{database.engine.url.database}"), search)
    worker.disk = disk

    def swept(begin: bool) -> list[Trial]:
        disk.watch(True)
        try:
            return drive(new_driver(database, search, begin=begin), worker)
        finally:
            disk.watch(False)

    disk.room()
    whole, points = decisions(swept(begin=True)), disk.count
    messages = Counter()
    visited = range(1, points + 1, every)
    for point in visited:
        disk.room()
        clear(database)
        worker.completed.clear()
        disk.full_from(point)
        with pytest.raises(StorageError) as caught:
            swept(begin=True)
        messages[str(caught.value).removeprefix(database.where)] += 1
        before = finished(database)
        disk.room()
        begun = bool(Sweeps(database).all())
        trials = swept(begin=not begun)
        assert decisions(trials) == whole, f"refused at change {point} of {points}"
        assert {number: trial for number, trial in before.items() if trial not in trials} == {}
        assert_nothing_twice(place, worker)
    worker.store.database.close()
    print(f"refused at {len(visited)} of {points} changes of a sweep")
    assert points > 100
    assert sum(messages.values()) == len(visited)
    remedies = ("; free some space and try again", "; check the device before going on", "; check that its disk works")
    assert all("\n" not in line and any(remedy in line for remedy in remedies) for line in messages), messages


def finished(database: Database) -> dict[int, Trial]:
    trials = Sweeps(database).trials("toy")
    return {trial.number: trial for trial in trials if trial.state != TrialState.RUNNING}


def assert_nothing_twice(place: Store, worker: FakeWorker) -> None:
    runs = place.runs(sweep="toy")
    assert len(runs) == 3
    assert set(worker.completed.values()) <= {1}
    assert not [run for run in runs if run.is_owned or run.state == RunState.QUEUED]
    assert Sweeps(place.database).get("toy").state == SweepState.COMPLETED


def test_what_stops_it_is_told_even_where_it_cannot_be_written(
    place: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`drive` wants to note that nobody drives the sweep any more, on the same full disk."""
    from types import SimpleNamespace

    from rlstudio.control.sweep import actions as hands

    disk, search = Disk(monkeypatch, "enospc"), search_of(**SMALL)
    disk.room()
    driver = new_driver(place.database, search)
    disk.watch(True)
    disk.full_from(1)
    workspace: Any = SimpleNamespace(store=place)
    with pytest.raises(StorageError, match=r"the disk is full|has room"):
        hands.drive(workspace, driver)
    disk.watch(False)
    disk.room()
    assert Sweeps(place.database).get("toy").state == SweepState.RUNNING
    again = new_driver(place.database, search, begin=False)  # its process is gone, as far as the next one can tell
    assert isinstance(again, Driver)
    assert len(drive(again, FakeWorker(place.database, search))) == 3
