"""The wall clock is set back and forth by days while runs train: they stay the same, none is taken, `last` is right."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest

from rlstudio.control.runs.start import start_session
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.workers import Workers
from rlstudio.control.workspace import Workspace
from rlstudio.core import timestamps
from rlstudio.core.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder import run_folder
from rlstudio.storage.abandoned import sweep_abandoned
from rlstudio.storage.folder import TEMPORARY, Folder
from support.control_world import owner
from support.experiments import tiny

SLOTS = Slots(cpus=1, gpus=0, memory_mb=100)


class Clock(datetime):
    offset = timedelta()

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + cls.offset


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch):
    """Sets the wall clock off by so many days; the monotonic clock is not touched, as in a real jump."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + Clock.offset.total_seconds())
    for module in (run_folder, timestamps):
        monkeypatch.setattr(module, "datetime", Clock)
    yield lambda days: setattr(Clock, "offset", timedelta(days=days))
    Clock.offset = timedelta()


def trained(workspace: Workspace, jump, days=(0,)) -> tuple[str, str | None]:
    jumps = cycle(days)
    jump(next(jumps))
    with start_session(workspace, tiny(ckpt={"every_seconds": 0.001})) as session:
        for _ in session:
            jump(next(jumps))
            assert workspace.reap() == []
    assert session.status.state == RunState.COMPLETED
    return session.folder.id, session.status.state_hash


def test_runs_do_not_notice_a_clock_that_jumps(tmp_path: Path, jump) -> None:
    workspace = Workspace(tmp_path / "runs")
    first, calm = trained(workspace, jump)
    second, tossed = trained(workspace, jump, days=(-1, 1, -400, 400))
    assert tossed == calm
    assert second < first  # by its name it is the older one
    jump(0)
    for entry in (workspace.find("last"), workspace.entry(workspace.store.runs(limit=1)[0])):
        assert entry.id == second
    kinds = [event["kind"] for event in workspace.folder(second).events()]
    assert [kind for kind in kinds if kind in ("created", "running", "completed")] == [
        "created",
        "running",
        "completed",
    ]


@pytest.mark.parametrize("days", [-1, 1, 400])
def test_a_worker_is_not_taken_to_be_gone(tmp_path: Path, jump, days: int) -> None:
    workers = Workers(Workspace(tmp_path / "runs").store.database)
    workers.register("here", this_process(), SLOTS)
    workers.register("elsewhere", owner(), SLOTS)
    jump(days)
    assert {worker.id for worker in workers.alive()} == {"here", "elsewhere"}
    assert datetime.fromisoformat(workers.alive()[0].started_at).tzinfo == UTC


@pytest.mark.parametrize(("days", "stays"), [(-1, True), (0, True), (1, False)])
def test_what_is_unfinished_goes_by_its_age_alone(tmp_path: Path, jump, days: int, stays: bool) -> None:
    """After a jump ahead something that is being made may look abandoned: whoever makes it reports that in one line."""
    part = tmp_path / f"{TEMPORARY}abc"
    part.mkdir()
    jump(days)
    sweep_abandoned(Folder(tmp_path))
    assert part.exists() == stays
