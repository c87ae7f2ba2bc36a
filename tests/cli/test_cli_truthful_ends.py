"""How a run ended is told as it was: by whom, and in one line of bearable length."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest
import torch

from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import LONGEST_MESSAGE, StorageError
from rlstudio.core.host.process_exit import noticing_exits
from rlstudio.core.parsing.names import Rule
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.run.session import Session
from support.cli_scenario import Rlctl
from support.experiments import tiny, tiny_yaml
from support.processes import in_child

WORLD = """\
import os
import sys

import gymnasium
import torch
from gymnasium.envs.classic_control import CartPoleEnv


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Odd(CartPoleEnv):
    def __init__(self, how, render_mode=None):
        super().__init__()
        self.how = how

    def step(self, action):
        if self.how == "chdir":
            os.chdir("/")
        if self.how == "dtype":
            torch.set_default_dtype(torch.float64)
        if self.how == "no_grad":
            torch.set_grad_enabled(False)
        if self.how == "_exit":
            os._exit(0)
        if self.how == "close_files":
            for number in os.listdir("/proc/self/fd"):
                if os.path.realpath(f"/proc/self/fd/{number}").startswith(os.getcwd()):
                    os.close(int(number))
        if self.how == "close_stdout":
            sys.stdout.close()
        if self.how == "mute":
            raise Mute
        if self.how == "long":
            raise ValueError("x" * 5_000_000)
        return super().step(action)


gymnasium.register("Odd-v0", entry_point=Odd, max_episode_steps=20)
"""


@pytest.fixture(autouse=True)
def _own_modules(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (place / "odd_world.py").write_text(WORLD)
    yield
    sys.modules.pop("odd_world", None)


def launch(rlctl: Rlctl, how: str, *options: str) -> tuple[int, str, Workspace]:
    workspace = Workspace(Path("runs"))
    odd = ("env.id=Odd-v0", f"env.kwargs.how={how}", "env.vectorization=sync")
    done = rlctl("launch", "--import", "odd_world", "-f", "tiny.yaml", *odd, *(options or ("-q",)))
    return done.code, done.err, workspace


def test_b6_an_environment_may_change_the_working_directory(rlctl: Rlctl, place: Path) -> None:
    code, err, workspace = launch(rlctl, "chdir")
    assert os.getcwd() == "/"
    assert (code, err) == (0, "")
    assert workspace.find("last").status.state == "COMPLETED"
    assert workspace.runs_dir == place / "runs"


def test_row_44_a_folder_that_was_moved_is_called_so(place: Path) -> None:
    workspace = Workspace(Path("runs"))
    with start_session(workspace, tiny(train={"epochs": 50})) as session:
        ticks = iter(session)
        next(ticks)
        shutil.move(session.folder.path, place / "away")
        with pytest.raises(StorageError, match=r"the folder of the run is gone: it was moved or removed"):
            for _ in ticks:
                pass
        shutil.move(place / "away", session.folder.path)
    run = workspace.store.get(session.folder.id)
    assert (run.state, run.reason) == ("INTERRUPTED", "storage")
    assert "the folder of the run is gone" in run.message


def test_deleting_the_runs_folder_while_training_is_called_so(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomer S3: the answer was "process ? on an unknown host took the run". The store is gone with the folder."""
    close_epoch = Session._close_epoch

    def deleting(self: Session, *args: object) -> bool:
        shutil.rmtree(self.folder.path.parent, ignore_errors=True)
        return close_epoch(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "_close_epoch", deleting)
    done = rlctl("launch", "-f", "tiny.yaml")
    assert done.code == StorageError.exit_code
    assert "the folder of the run is gone: it was moved or removed" in done.err
    assert "took the run" not in done.err


@pytest.mark.parametrize("ignored", [(), get_args(Rule)], ids=["found by its updates", "found by its rows"])
def test_b7_a_policy_that_diverged_is_not_the_fault_of_the_environment(
    rlctl: Rlctl, place: Path, ignored: tuple[str, ...]
) -> None:
    (place / "wild.yaml").write_text(
        tiny_yaml(
            env={"id": "Pendulum-v1"},
            train={"epochs": 30, "lr": 10.0, "lr_schedule": "constant", "passes": 10, "max_grad_norm": 1e9},
            guardrails={"max_rollbacks": 1, "ignore": list(ignored)},
        )
    )
    done = rlctl("launch", "-f", "wild.yaml", "-q")
    assert done.code == 6, done.err
    assert ("of the rows have actions of the policy" in done.err) == bool(ignored)
    status = Workspace(Path("runs")).find("last").status
    assert (status.state, status.reason) == ("FAILED", "diverged")
    assert "environment" not in done.err


def test_row_59_the_metrics_of_a_run_that_diverged_stay(place: Path, rlctl: Rlctl) -> None:
    done = rlctl("launch", "-f", "tiny.yaml", "guardrails.limits={train/entropy: 1e-9}", "-q")
    assert done.code == 6
    series = read_series(next(Path("runs").glob("2*")))
    assert series["train/entropy"][1][-1] > 0


def test_b13_an_exception_without_words_is_a_fault_of_the_environment(rlctl: Rlctl) -> None:
    code, err, workspace = launch(rlctl, "mute")
    assert code == 5
    assert "raised Mute: its text could not be read (RuntimeError)" in err
    assert workspace.find("last").status.reason == "env_fault"


@pytest.mark.parametrize(("how", "said"), [("dtype", "default dtype to float64"), ("no_grad", "no gradients")])
def test_row_30_an_environment_that_changes_torch_is_named(rlctl: Rlctl, how: str, said: str) -> None:
    try:
        code, err, workspace = launch(rlctl, how)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
    assert code == 5, err
    assert "env Odd-v0: changed torch" in err
    assert said in err
    assert workspace.is_empty or workspace.find("last").status.reason == "env_fault"  # empty: refused before it began


def test_row_30_an_environment_that_closes_our_files_is_named(rlctl: Rlctl) -> None:
    code, err, workspace = launch(rlctl, "close_files")
    assert code == 5, err
    assert "env Odd-v0: closes files that it did not open" in err
    status = workspace.find("last").status
    assert (status.state, status.reason) == ("FAILED", "env_fault")


@pytest.mark.parametrize("options", [("--name=loud",), ("-q",)])
def test_row_30_an_environment_that_closes_the_output_loses_only_that(
    rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdout", StringIO())
    code, err, workspace = launch(rlctl, "close_stdout", *options)
    assert code == 3
    assert "on env Odd-v0: COMPLETED, but output: is closed; an environment" in err
    assert workspace.find("last").status.state == "COMPLETED"


@pytest.mark.parametrize("command", [("ls",), ("launch", "-f", "tiny.yaml", "-q"), ("rm", "none")])
def test_row_30_without_any_output_there_is_an_exit_code(
    rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as in `rlctl ls >&- 2>&-`
    monkeypatch.setattr(sys, "stderr", None)
    assert rlctl(*command).code == (2 if command[0] == "rm" else 3)


def test_row_25_an_exit_in_an_environment_is_its_fault_and_no_success(rlctl: Rlctl) -> None:
    real = os._exit
    code, err, workspace = launch(rlctl, "_exit")
    assert code == 5
    assert "env 0 (Odd-v0): raised ProcessExit: os._exit(0) at odd_world.py:" in err
    status = workspace.find("last").status
    assert (status.state, status.reason) == ("FAILED", "env_fault")
    assert os._exit is real


@pytest.mark.parametrize("where", ["sys.exit(0)", "os._exit(0)"])
def test_row_25_an_exit_of_an_imported_module_is_no_success(rlctl: Rlctl, place: Path, where: str) -> None:
    (place / "leaving.py").write_text(f"import os, sys\n{where}\n")
    done = rlctl("launch", "--import", "leaving", "-f", "tiny.yaml", "-q")
    assert done.code == 2
    assert "--import leaving: " in done.err


@pytest.mark.real_process
def test_row_25_an_exit_on_another_thread_is_reported_and_a_child_may_leave(capfd: pytest.CaptureFixture[str]) -> None:
    def leaving() -> None:
        with noticing_exits(lambda line: print(line, flush=True)):
            assert os.waitstatus_to_exitcode(in_child(lambda: os._exit(0))) == 0  # as multiprocessing does
            thread = threading.Thread(target=os._exit, args=(0,), name="stray")
            thread.start()
            thread.join()

    assert os.waitstatus_to_exitcode(in_child(leaving)) == 1
    assert "ended by os._exit(0) in thread 'stray'" in capfd.readouterr().out


def test_row_24_a_long_message_of_an_environment_is_cut(rlctl: Rlctl) -> None:
    code, err, workspace = launch(rlctl, "long")
    assert code == 5
    assert "... (5,000,000 characters)" in err
    for text in (err, workspace.find("last").status.message, workspace.find("last").folder.last_status().message):
        assert len(text) < 2 * LONGEST_MESSAGE


def test_b11_a_metric_with_an_impossible_time_is_printed(rlctl: Rlctl, place: Path) -> None:
    rlctl("launch", "-f", "tiny.yaml", "-q")
    file = next(Path("runs").glob("2*")) / "metrics.jsonl"
    for record in [json.loads(line) | {"ts": 1e308} for line in file.read_text().splitlines()]:
        del record["crc"]  # as in a file of an older version
        with file.open("a") as more:
            more.write(json.dumps(record) + "\n")
    for options in ((), ("--json",)):
        done = rlctl("logs", "last", *options)
        assert (done.code, done.err) == (0, "")


def test_row_35_what_an_environment_printed_is_escaped_when_shown(rlctl: Rlctl) -> None:
    rlctl("launch", "-f", "tiny.yaml", "-q")
    log = next(Path("runs").glob("2*")) / "stdout.log"
    assert "run         2" in rlctl("logs", "last", "--output").out
    log.write_bytes(b"\x1b]0;owned\x07 50%\r\n\xff\xfe\x9b31m\n" + b"x" * 100_000)
    out = rlctl("logs", "last", "--output").out.splitlines()
    assert out[:2] == ["\\x1b]0;owned\\x07 50%", "\\xff\\xfe\\x9b31m"]
    assert [len(line) for line in out[2:]] == [65536, 34464]
    log.unlink()
    assert rlctl("logs", "last", "--output").err.endswith("has printed nothing so far\n")
    assert rlctl("logs", "last", "--output", "-f").code == 2


def test_b12_a_runs_folder_with_too_long_a_name(rlctl: Rlctl) -> None:
    for command in (("launch", "-f", "tiny.yaml"), ("ls",), ("resume",), ("launch", "-f", "tiny.yaml", "--detach")):
        done = rlctl(*command, "--runs-dir", "a" * 300)
        assert (done.code, done.err.count("\n")) == (2, 1), command
        assert "File name too long" in done.err


@pytest.mark.parametrize("leaves", [lambda: os._exit(0), lambda: sys.exit(0), sys.exit])
def test_row_25_an_exit_anywhere_in_a_command_is_no_success(
    rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch, leaves: Callable[[], None]
) -> None:
    monkeypatch.setattr("rlstudio.control.workspace.Workspace.entries", lambda *_, **__: leaves())
    monkeypatch.setattr("rlstudio.control.workspace.Workspace.is_empty", False)
    done = rlctl("ls")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "other code ended the program by" in done.err
