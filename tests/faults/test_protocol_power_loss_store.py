"""Power loss for the store and the registry: what SQLite and the blobs wrote and did not sync may be lost.

The log of all changes is recorded, of SQLite's own pages and journal as well as of the files of a bundle. After each of
them the disk is rebuilt as a power cut may leave it (`support/power_loss.py`).
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.store import database
from rlstudio.control.store.store import Store
from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import RunState
from rlstudio.storage import failpoint
from rlstudio.storage.failpoint import Operation
from support.control_world import owner, request
from support.power_loss import State, lay_out, states
from support.registry_world import write_policy
from support.repetition import some_points
from support.sqlite_faults import Placed, sqlite_passes_failpoints, sqlite_tells_syncs

QUICK = PromotionConfig(budget=20, margin=-100.0)


class Recording(NamedTuple):
    states: list[State]
    told: list[tuple[int, str]]  # after how many changes a caller was told what


class Recorder:
    """Of what happens below one folder, as if it had happened in a copy of it."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.operations: list[Operation] = []
        self.told: list[tuple[int, str]] = []
        self._root, self._copy = root, copy

    def note(self, operation: Operation) -> None:
        path = self._copy / operation.path.relative_to(self._root)
        if isinstance(operation, Placed):
            self.operations.append(Placed.at(path, operation.place, bytes(operation.data)))
            return
        target = operation.target and self._copy / operation.target.relative_to(self._root)
        self.operations.append(Operation(operation.kind, path, target, bytes(operation.data)))

    def tell(self, what: object) -> None:
        self.told.append((len(self.operations), str(what)))


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The store syncs as for users; other tests do not wait for it."""
    monkeypatch.setattr(database, "_set_up_sqlite", inspect.unwrap(database._set_up_sqlite))
    with sqlite_passes_failpoints(), sqlite_tells_syncs():
        yield


def recorded(root: Path, copy: Path, act) -> Recording:
    shutil.copytree(root, copy)
    recorder = Recorder(root, copy)
    failpoint.restart(recorder.note)
    try:
        act(recorder)
    finally:
        failpoint.restart()
    return Recording(states(copy, recorder.operations, ("none", "all")), recorder.told)


def last_told(recording: Recording, changes: int, before: str) -> str:
    return next((what for count, what in reversed(recording.told) if count <= changes), before)


@pytest.mark.usefixtures("noting")
@pytest.mark.parametrize("at_most", [60, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_store_after_every_power_cut(tmp_path, at_most):
    """R3: a run's moves, each of which returns once it is durable."""
    root = tmp_path / "begun"
    first = Store(Workspace(root).store.database)
    run = first.create(request(name="one"))
    first.database.close()

    def act(recorder: Recorder) -> None:
        store = Workspace(root).store
        claimed = store.claim(run.id, owner())
        recorder.tell(RunState.STARTING)
        store.move(claimed.id, claimed.token, RunState.RUNNING)
        recorder.tell(RunState.RUNNING)
        store.publish(claimed.id, claimed.token, [{"step": 9, "state_hash": "h", "manifest_sha256": "m"}])
        store.move(claimed.id, claimed.token, RunState.COMPLETED)
        recorder.tell(RunState.COMPLETED)
        store.database.close()

    recording = recorded(root, tmp_path / "copy", act)
    order = [RunState.QUEUED, RunState.STARTING, RunState.RUNNING, RunState.COMPLETED]
    points = some_points(len(recording.states), at_most)
    reached = set()
    for tree, changes, what in (recording.states[point] for point in points):
        place = tmp_path / "cut"
        place.mkdir()
        lay_out(tree, place)
        workspace = Workspace(place)
        store = workspace.store
        found = store.get(run.id).state
        assert order.index(found) >= order.index(RunState(last_told(recording, changes, "QUEUED"))), what
        assert [event.state for event in store.events(run.id)][-1] == found, what
        with store.database.engine.connect() as connection:
            assert connection.exec_driver_sql("pragma integrity_check").scalar() == "ok", what
        reached.add(found)
        store.database.close()
        shutil.rmtree(place)
    print(f"{len(points)} of {len(recording.states)} states after a power cut, {len(reached)} different outcomes")
    assert reached == set(order) or at_most < 100


@pytest.mark.usefixtures("noting")
@pytest.mark.parametrize("at_most", [40, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_registry_after_every_power_cut(tmp_path, at_most):
    """R3: a bundle becomes a version, which goes into production; the one before it stays whole."""
    root = tmp_path / "begun"
    releases = Releases(Workspace(root))
    for number in (1, 2):
        write_policy(tmp_path / f"bundle-{number}", skill=number)
    releases.promote(releases.register_bundle("pole", tmp_path / "bundle-1"), Stage.PRODUCTION, QUICK, force="first")
    releases.registry.database.close()

    def act(recorder: Recorder) -> None:
        releases = Releases(Workspace(root))
        version = releases.register_bundle("pole", tmp_path / "bundle-2")
        recorder.tell("registered")
        releases.promote(version, Stage.PRODUCTION, QUICK, force="second")
        recorder.tell("promoted")
        releases.registry.database.close()

    recording = recorded(root, tmp_path / "copy", act)
    points = some_points(len(recording.states), at_most)
    reached = set()
    for tree, changes, what in (recording.states[point] for point in points):
        place = tmp_path / "cut"
        place.mkdir()
        lay_out(tree, place)
        releases = Releases(Workspace(place))
        known = {version.version: version for version in releases.versions("pole")}
        for version in known.values():
            assert releases.bundle(version).sha256 == version.digest, what
        (live,) = [number for number, version in known.items() if version.stage == Stage.PRODUCTION]
        told = last_told(recording, changes, "nothing")
        assert len(known) == 2 or told == "nothing", what
        assert live == 2 or told != "promoted", what
        reached.add((len(known), live))
        releases.registry.database.close()
        shutil.rmtree(place)
    print(f"{len(points)} of {len(recording.states)} states after a power cut, {len(reached)} different outcomes")
    assert reached == {(1, 1), (2, 1), (2, 2)}


@pytest.mark.usefixtures("noting")
def test_the_first_of_everything_after_every_power_cut(tmp_path):
    """R3: nothing was there before: the folders that are made on the way must last as well."""
    root = tmp_path / "begun"
    root.mkdir()
    write_policy(tmp_path / "bundle", skill=1)
    made = []

    def act(recorder: Recorder) -> None:
        workspace = Workspace(root)
        made.append(workspace.store.create(request(name="one")).id)
        recorder.tell("launched")
        Releases(workspace).register_bundle("pole", tmp_path / "bundle")
        recorder.tell("registered")
        workspace.store.database.close()

    recording = recorded(root, tmp_path / "copy", act)
    order, reached = ["nothing", "launched", "registered"], set()
    for tree, changes, what in recording.states:
        place = tmp_path / "cut"
        place.mkdir()
        lay_out(tree, place)
        workspace = Workspace(place)
        releases = Releases(workspace)
        ids, versions = workspace.store.ids(), releases.records.versions("pole") if releases.records.models() else []
        for version in versions:
            assert releases.bundle(version).sha256 == version.digest, what
        found = "registered" if versions else "launched" if ids == {*made} else "nothing"
        assert order.index(found) >= order.index(last_told(recording, changes, "nothing")), what
        reached.add(found)
        workspace.store.database.close()
        shutil.rmtree(place)
    print(f"{len(recording.states)} states after a power cut, {len(reached)} different outcomes")
    assert reached == set(order)
