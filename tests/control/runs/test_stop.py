"""The request that a run end: recorded in the store, and one signal for each process that owns the run."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from rlstudio import orchestrator
from rlstudio.control.lifecycle import Desired
from rlstudio.control.runs.stop import EndRequest
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Conflict, RunBusy, UserError
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner, process_of, this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.control_world import owner, request

S = RunState


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Owner, int]]:
    """Signals that were sent, instead of sending them."""
    signals: list[tuple[Owner, int]] = []

    def note(owner: Owner, signum: int) -> bool:
        signals.append((owner, signum))
        return True

    monkeypatch.setattr(process, "send", note)
    return signals


def running(workspace: Workspace, owner: Owner) -> str:
    run = workspace.store.create(request(), owner=owner)
    workspace.store.move(run.id, run.token, S.RUNNING)
    return run.id


def unlisted(workspace: Workspace, **changes: object) -> RunFolder:
    """A run that only its folder records."""
    folder = RunFolder.create(workspace.runs_dir, NewRun(name="old", algo="ppo", env_id="CartPole-v1", config_yaml=""))
    folder.write_status(replace(folder.read_status(), **changes))  # type: ignore[arg-type]
    return folder


def test_a_process_gets_one_signal_however_often_it_is_delivered(workspace: Workspace, sent: list[object]) -> None:
    parent = process_of(os.getppid())
    run_id = running(workspace, parent)
    end = EndRequest(workspace, run_id, Desired.STOP)
    assert [end.deliver().status.state for _ in range(3)] == [S.STOPPING] * 3
    assert (sent, end.has_signal) == ([(parent, signal.SIGTERM)], True)


@pytest.mark.parametrize("by", [this_process(), owner(host="another-host")])
def test_what_a_signal_must_not_or_cannot_reach_reads_the_store(
    workspace: Workspace, sent: list[object], by: Owner
) -> None:
    """A run in a thread of this process, and one on another host: the heartbeat of each reads the request."""
    run_id = running(workspace, by)
    end = EndRequest(workspace, run_id, Desired.CANCEL)
    end.deliver()
    assert (sent, end.has_signal) == ([], False)
    assert workspace.store.get(run_id).desired == Desired.CANCEL


def test_another_users_process_reads_the_store(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(owner: Owner, signum: int) -> bool:
        raise PermissionError

    monkeypatch.setattr(process, "send", refuse)
    parent = process_of(os.getppid())
    run_id = running(workspace, parent)
    end = EndRequest(workspace, run_id, Desired.STOP)
    assert (end.deliver().status.state, end.has_signal) == (S.STOPPING, False)
    with pytest.raises(UserError, match="belongs to another user, who alone can stop it"):
        EndRequest(
            workspace, unlisted(workspace, pid=parent.pid, pid_start=parent.pid_start).id, Desired.STOP
        ).deliver()


def test_a_run_that_only_its_folder_records(workspace: Workspace, sent: list[object]) -> None:
    with pytest.raises(UserError, match="runs in this process without the store; end it by leaving its loop"):
        EndRequest(workspace, unlisted(workspace).id, Desired.STOP)
    with pytest.raises(UserError, match="runs on elsewhere without the store; stop it there"):
        EndRequest(workspace, unlisted(workspace, host="elsewhere").id, Desired.STOP)
    with pytest.raises(Conflict, match="is COMPLETED; there is nothing to stop"):
        EndRequest(workspace, unlisted(workspace, state=S.COMPLETED).id, Desired.STOP)
    assert sent == []


def test_cancelling_a_run_that_only_its_folder_records_takes_it_into_the_store(
    workspace: Workspace, sent: list[object]
) -> None:
    ended = unlisted(workspace, state=S.INTERRUPTED)
    assert EndRequest(workspace, ended.id, Desired.CANCEL).deliver().status.state == S.CANCELLED
    with pytest.raises(RunBusy, match="is STARTING without the store; it can be adopted once it has ended"):
        EndRequest(workspace, unlisted(workspace).id, Desired.CANCEL)
    assert sent == []


def test_python_ends_it_in_the_same_way(workspace: Workspace, sent: list[object]) -> None:
    parent = process_of(os.getppid())
    folder = unlisted(workspace, pid=parent.pid, pid_start=parent.pid_start)
    orchestrator.get(folder.id, runs_dir=workspace.runs_dir).stop()
    assert sent == [(parent, signal.SIGTERM)]
