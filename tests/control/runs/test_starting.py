"""A process that has its run and is not ready yet sends heartbeats, so nobody takes it for dead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstudio.control.queue import runner
from rlstudio.control.runs import start
from rlstudio.control.runs.start import enqueue
from rlstudio.control.runs.starting import heartbeats
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import StorageError
from rlstudio.core.host.process import this_process
from support.control_world import HERE, owner
from support.experiments import tiny
from support.rlctl_process import wait_for

OFTEN = 0.01


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace(tmp_path / "runs")
    yield opened
    opened.store.database.close()


def claimed(workspace: Workspace) -> RunRow:
    run = enqueue(workspace, tiny("ppo"))
    return workspace.store.claim(run.id, owner(1, HERE))


def wait_for_beats(store: Store, run: RunRow, beats: int = 2) -> None:
    wait_for(lambda: store.get(run.id).heartbeat >= run.heartbeat + beats)


def test_heartbeats_until_the_run_is_ready_and_none_after(workspace: Workspace) -> None:
    store, run = workspace.store, claimed(workspace)
    run = store.hand_over(run.id, run.token, this_process())
    with heartbeats(store, run, OFTEN):
        wait_for_beats(store, run)
    ready = store.get(run.id)
    assert (ready.progress, ready.state) == (run.progress, run.state)  # one that never gets ready counts as stuck
    with heartbeats(store, run, 60.0):
        pass
    assert store.get(run.id).heartbeat == ready.heartbeat


def test_neither_a_store_that_is_away_nor_a_lost_run_ends_them(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = workspace.store, claimed(workspace)
    asked = []

    def away(*_: object) -> None:
        asked.append(1)
        raise StorageError("away")

    monkeypatch.setattr(store, "beat", away)
    with heartbeats(store, run, OFTEN):
        wait_for(lambda: len(asked) > 2)


def test_the_process_of_a_run_sends_them_while_it_gets_ready(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine on which getting ready takes long: the store hears of the process all the same."""
    run = claimed(workspace)
    serve = start.serve

    def serve_late(space: Workspace, taken: RunRow, **options: object) -> object:
        wait_for_beats(space.store, taken)
        return serve(space, taken, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(heartbeats.__wrapped__, "__defaults__", (OFTEN,))
    monkeypatch.setattr(start, "serve", serve_late)
    assert runner.main(run.id, run.token, workspace.runs_dir) == 0
