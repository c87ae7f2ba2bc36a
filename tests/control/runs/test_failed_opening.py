"""A session that cannot be opened: its run has a recorded end that says why, and nothing of it goes on living."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlstudio.control.runs import start as starting
from rlstudio.control.runs.start import resume_session, start_session
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import EnvFault, RunBusy, StorageError, UserError
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import ExperimentConfig, new_run
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build
from support.tiny_runs import config

S = RunState
PPO = {"train": {"epochs": 4, "steps_per_epoch": 32, "rollout_steps": 8, "batch_size": 16}}

pytestmark = pytest.mark.real_process


def experiment(vectorization: str = "async") -> ExperimentConfig:
    return config("ppo", vectorization, **PPO)


def workers() -> set[int]:
    """Processes of environments: all that this one has started and not waited for."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")


@pytest.fixture
def no_worker_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was built is kept until the end, so that it is closed and not merely collected."""
    before, kept = workers(), []

    def kept_build(cfg: ExperimentConfig) -> Any:
        kept.append(build(cfg))
        assert workers() > before
        return kept[-1]

    monkeypatch.setattr(starting, "build", kept_build)
    yield
    assert workers() <= before


def fail(error: Exception) -> Any:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


def interrupted(workspace: Workspace) -> RunRow:
    with start_session(workspace, experiment("native")) as session:
        for tick in session:
            if tick.report and tick.epoch == 1:
                break
    return workspace.store.get(session.folder.id)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (EnvFault("no display"), (S.FAILED, Reason.ENV_FAULT, "no display")),
        (StorageError("disk full"), (S.INTERRUPTED, Reason.STORAGE, "disk full")),
        (UserError("no such sink"), (S.FAILED, Reason.CONFIG, "no such sink")),
        (ZeroDivisionError("ours"), (S.FAILED, Reason.INTERNAL, "ZeroDivisionError: ours")),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.usefixtures("no_worker_is_left")
def test_a_new_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: Exception, end: tuple[RunState, Reason, str]
) -> None:
    monkeypatch.setattr(Session, "_build", fail(error))
    with pytest.raises(type(error)):
        start_session(workspace, experiment())
    (run,) = workspace.store.runs()
    status = workspace.folder(run.id).last_status()
    # A defect also has the line it comes from, here one of this file.
    message = run.message.partition(" at tests/")[0]
    assert (run.state, run.reason, message) == end
    assert (status.state, status.reason, status.message) == (run.state, run.reason, run.message)
    assert (workspace.folder(run.id).artifacts_path / "traceback.txt").exists() == (end[1] == Reason.INTERNAL)


@pytest.mark.usefixtures("no_worker_is_left")
def test_a_new_run_whose_lease_is_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.control.runs.lease.FileLease", fail(StorageError("no locks here")))
    with pytest.raises(StorageError):
        start_session(workspace, experiment())
    (run,) = workspace.store.runs()
    assert (run.state, run.reason, run.message) == (S.INTERRUPTED, Reason.STORAGE, "no locks here")


def test_a_run_that_another_process_writes(tmp_path: Path) -> None:
    """Nothing is recorded: the run is not ours. What was built for it is closed."""
    before, cfg = workers(), experiment()
    folder = RunFolder.create(tmp_path, new_run(cfg))
    built = build(cfg)
    assert workers() > before
    with FileLease(folder.path):
        with pytest.raises(RunBusy):
            Session.open(folder, cfg, built=built)
        assert folder.read_status().state == S.STARTING
    assert workers() <= before


def test_a_resumed_run_whose_history_cannot_be_written(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run, event = interrupted(workspace), RunFolder.event

    def without_lineage(folder: RunFolder, kind: str, **values: object) -> None:
        if kind == starting.EVENT:
            raise StorageError("disk full")
        event(folder, kind, **values)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "event", without_lineage)
        with pytest.raises(StorageError):
            resume_session(workspace, run)
    after = workspace.store.get(run.id)
    assert (after.state, after.reason, after.message) == (S.INTERRUPTED, Reason.STORAGE, "disk full")
    resume_session(workspace, after).close()  # neither lock nor ownership is left


def test_an_extended_run_whose_config_cannot_be_written(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run = interrupted(workspace)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_config", fail(StorageError("disk full")))
        with pytest.raises(StorageError):
            resume_session(workspace, run, ["train.epochs=6"])
    after = workspace.store.get(run.id)
    assert (after.state, after.reason, after.message) == (S.INTERRUPTED, Reason.STORAGE, "disk full")
    resume_session(workspace, after, ["train.epochs=6"]).close()


def test_a_refused_resume_leaves_the_folder_as_it_was(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine, a missing package: a mistake of the user's does not make a run that can go on a failed one."""
    run = interrupted(workspace)
    before = workspace.folder(run.id).last_status()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_build", fail(UserError("another machine")))
        with pytest.raises(UserError):
            resume_session(workspace, run)
    assert workspace.folder(run.id).last_status() == before
    assert workspace.store.get(run.id).state == S.INTERRUPTED
