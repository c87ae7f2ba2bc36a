"""Going on with a run: the store's word on its state counts, and what is refused changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlstudio.control.runs.start import requeue, resume_session, serve, start_session
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.folder.run_folder import RunFolder
from support.tiny_runs import config

PPO = {"train": {"epochs": 2, "steps_per_epoch": 32, "rollout_steps": 8, "batch_size": 16}}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")


def ended(workspace: Workspace, at_epoch: int) -> tuple[RunRow, RunFolder]:
    with start_session(workspace, config("ppo", "native", **PPO)) as session:
        for tick in session:
            if tick.report and tick.epoch == at_epoch < 2:
                break
    return workspace.store.get(session.folder.id), session.folder


def files(folder: RunFolder) -> dict[str, tuple[bytes, int]]:
    found = [path for path in folder.path.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_a_refusal_by_the_state_of_the_store_writes_nothing(workspace: Workspace) -> None:
    run, folder = ended(workspace, at_epoch=2)
    assert run.state == RunState.COMPLETED
    folder.write_status(replace(folder.read_status(), state=RunState.INTERRUPTED, reason=Reason.SIGNAL))
    before = files(folder)
    for go_on in (resume_session, requeue):
        with pytest.raises(UserError, match="it completed its 2 epochs; extend it with"):
            go_on(workspace, run)
    assert files(folder) == before
    assert workspace.store.get(run.id) == run


@pytest.mark.parametrize("queued", [False, True])
def test_a_folder_that_is_ahead_of_the_store_does_not_stop_a_run(workspace: Workspace, queued: bool) -> None:
    """The process wrote its last status and died before the store heard of it."""
    run, folder = ended(workspace, at_epoch=1)
    assert run.state == RunState.INTERRUPTED
    folder.write_status(replace(folder.read_status(), state=RunState.COMPLETED, epoch=2))
    if queued:
        requeue(workspace, run)
        token = workspace.store.claim(run.id, this_process()).token
        session = serve(workspace, workspace.store.hand_over(run.id, token, this_process()), on_lost=lambda: None)
    else:
        session = resume_session(workspace, run)
    with session:
        for _ in session:
            pass
    assert (workspace.store.get(run.id).state, folder.read_status().state) == (RunState.COMPLETED, RunState.COMPLETED)
