"""The command that hears how a run ended: what it is told, and that it can never hurt the run."""

import json
import time
from dataclasses import replace

import pytest

from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import new_run
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.notify import Notifier
from support.experiments import tiny
from support.sessions import start


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", new_run(tiny()))


def failures(folder: RunFolder) -> list[str]:
    return [event["reason"] for event in folder.events() if event["kind"] == "notify_failed"]


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("state", "reason", "event"),
    [
        (RunState.COMPLETED, Reason.NONE, "completed"),
        (RunState.COMPLETED, Reason.GOAL, "goal"),
        (RunState.FAILED, Reason.DIVERGED, "diverged"),
        (RunState.FAILED, Reason.ENV_FAULT, "failed"),
        (RunState.INTERRUPTED, Reason.SIGNAL, "interrupted"),
    ],
)
def test_each_end_is_one_document_on_its_input(state, reason, event, folder, tmp_path):
    notify = Notifier(["tee", "-a", str(tmp_path / "told")], folder)
    running = replace(folder.read_status(), state=RunState.RUNNING)
    end = replace(running, state=state, reason=reason, message="why", env_steps=64, eval_return=float("nan"))
    for status in (running, end, end):
        notify(status)
    told = json.loads((tmp_path / "told").read_text())
    assert (told["event"], told["state"], told["reason"]) == (event, state, reason)
    assert (told["run"], told["message"], told["env_steps"]) == (folder.id, "why", 64)
    assert (told["eval_return"], told["path"]) == (None, str(folder.path))
    assert failures(folder) == []


def test_a_run_that_waits_in_its_place_has_not_ended(folder, tmp_path):
    notify = Notifier(["tee", str(tmp_path / "told")], folder)
    notify(replace(folder.read_status(), state=RunState.INTERRUPTED, reason=Reason.PAUSED))
    assert not (tmp_path / "told").exists()


@pytest.mark.real_process
def test_a_command_that_fails_is_an_event_and_the_run_completes(tmp_path):
    with start(tiny(), tmp_path) as session:
        folder = session.folder
        session.writer.notify = Notifier(["sh", "-c", "echo no network >&2; exit 3"], folder)
        for _ in session:
            pass
    assert folder.read_status().state == RunState.COMPLETED
    assert failures(folder) == ["ended with 3: no network"]


@pytest.mark.real_process
def test_a_command_that_does_not_end_is_given_up(folder):
    before = time.monotonic()
    Notifier(["sleep", "600"], folder, seconds=0.05)(replace(folder.read_status(), state=RunState.COMPLETED))
    assert failures(folder) == ["did not end within 0.05 s"]
    assert time.monotonic() - before < 300


def test_a_command_that_is_gone_is_an_event(folder):
    Notifier(["/no/such/program"], folder)(replace(folder.read_status(), state=RunState.COMPLETED))
    assert "cannot be started" in failures(folder)[0]
