"""A call of an environment in the training process that does not return: named, with the stack, and ended if asked."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import signal
import threading
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from rlstudio.core.errors import EnvFault
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.hang_watch import HangWatch
from support.deadlines import PATIENCE, SLOWNESS
from support.experiments import tiny
from support.processes import in_child
from support.sessions import start

HANG = 0.5 * SLOWNESS
WHERE = r"env 1 \(Waiting-v0\): its call has not returned for .*; episode 0 \(seed \d+\), step 31, last action [01]"


class Waiting(CartPoleEnv):
    """Its 150th step, which no trial before the training reaches, waits for `go_on`."""

    go_on = threading.Event()
    steps = 0
    holds_interpreter = False

    def step(self, action):
        Waiting.steps += 1
        if Waiting.steps == 150:
            if Waiting.holds_interpreter:
                ctypes.PyDLL(None).sleep(1000)
            Waiting.go_on.wait(PATIENCE)
        return (*super().step(action)[:2], False, False, {})


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> type[Waiting]:
    monkeypatch.setattr(Waiting, "go_on", threading.Event())
    monkeypatch.setattr(Waiting, "steps", 0)
    monkeypatch.setitem(gymnasium.registry, "Waiting-v0", gymnasium.envs.registration.EnvSpec("Waiting-v0", Waiting))
    return Waiting


def experiment(**rollout: float) -> ExperimentConfig:
    env = {"id": "Waiting-v0", "max_episode_steps": 100, "vectorization": "sync"}
    return tiny(env=env, train={"epochs": 2}, rollout=rollout)


def only_folder(runs: Path) -> RunFolder:
    return RunFolder(next(runs.glob("2*")))


def test_row_26_a_call_that_does_not_return_is_reported_and_waited_for(waiting: type[Waiting], tmp_path: Path) -> None:
    reports: list[str] = []

    def report(text: str) -> None:
        if "go_on.wait" in text:  # not a step that this machine had no time for
            reports.append(text)
            waiting.go_on.set()

    session = start(experiment(step_timeout=0.2), tmp_path)
    waiting.steps = 88  # so that the call that waits is not the first one of a rollout
    with session, HangWatch(session, report):
        for _ in session:
            pass
    assert session.status.state == RunState.COMPLETED
    assert len(reports) == 1
    assert "set rollout.hang_timeout" in reports[0]
    assert "in step" in reports[0]
    events = [event for event in only_folder(tmp_path).events() if event["kind"] == "env_slow"]
    assert any(re.fullmatch(WHERE, str(event["reason"])) for event in events)


@pytest.mark.real_process
def test_row_26_a_hang_ends_the_run_where_that_is_asked_for(
    waiting: type[Waiting], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def train() -> None:
        with start(experiment(hang_timeout=HANG), tmp_path) as session, HangWatch(session, print):
            waiting.steps = 88
            for _ in session:
                pass

    assert os.waitstatus_to_exitcode(in_child(train)) == EnvFault.exit_code
    status = only_folder(tmp_path).read_status()
    assert (status.state, status.reason) == (RunState.FAILED, "env_fault")
    assert f"{HANG:g} s (rollout.hang_timeout)" in status.message


@pytest.mark.real_process
def test_row_26_also_one_that_keeps_the_interpreter_to_itself(
    waiting: type[Waiting], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def train() -> None:
        waiting.holds_interpreter = True
        with start(experiment(hang_timeout=HANG), tmp_path) as session, HangWatch(session, print):
            waiting.steps = 88
            for _ in session:
                pass

    assert os.waitstatus_to_exitcode(in_child(train)) == 1
    assert "in step" in capfd.readouterr().err
    assert only_folder(tmp_path).read_status().state == RunState.INTERRUPTED


def test_row_26_a_stopped_process_is_not_taken_to_hang(
    waiting: type[Waiting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: stopped.append("clock"))
    monkeypatch.setattr(signal, "raise_signal", lambda signum: stopped.append(signal.Signals(signum).name))
    with start(experiment(), tmp_path) as session, HangWatch(session, print):
        os.kill(os.getpid(), signal.SIGTSTP)
        assert stopped == ["clock", "SIGTSTP"]
        assert signal.getsignal(signal.SIGTSTP) != signal.SIG_DFL
    assert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
