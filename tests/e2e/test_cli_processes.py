"""Real processes: stopped, killed, refused, piped. Every one leaves a run that goes on exactly."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstudio import __version__
from rlstudio.cli import algorithm
from rlstudio.cli.app import main
from support.deadlines import PATIENCE
from support.rlctl_process import (
    COMMAND,
    HANGING_MODULE,
    LONG,
    end_all,
    rlctl,
    show,
    start,
    wait_for,
    wait_until_trained,
)

pytestmark = pytest.mark.real_process


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.yaml").write_text(LONG)
    (tmp_path / "hanging_world.py").write_text(HANGING_MODULE)
    yield tmp_path
    end_all()


def here(*args: str) -> int:
    """A command that needs no process of its own, without the seconds it takes to start one."""
    return main([*args, "--quiet"])


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=str,
)
def test_a_stopped_run_goes_on_exactly(signum: signal.Signals, code: int, place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml")
    wait_until_trained(place)
    process.send_signal(signum)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "signal")
    at_once, last = err.splitlines()
    assert at_once == "rlctl: stopping at the next safe point; Ctrl-C again leaves at once"
    assert signum.name in last
    assert last.endswith(f"go on with: rlctl resume {run['id']}")
    assert "Traceback" not in out + err
    assert run["checkpoints"][-1]["state_hash"] == run["state_hash"]

    epochs = run["epoch"] + 2
    assert here("resume", f"train.epochs={epochs}") == 0
    assert here("launch", "-f", "long.yaml", f"train.epochs={epochs}", "--runs-dir", "straight") == 0
    assert show(place)["state_hash"] == show(place, "straight")["state_hash"]


def test_a_run_belongs_to_its_process_until_stop_ends_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second process is refused; `rlctl stop` ends the first, says so, and a second stop finds nothing to do."""
    process = start(place, "launch", "-f", "long.yaml", "-q")
    wait_until_trained(place)
    assert main(["resume", "last"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"process {process.pid}" in err
    assert "rlctl stop" in err
    assert main(["rm", "last", "--yes"]) == 2
    assert process.poll() is None

    stopped = rlctl(place, "stop", "last")
    process.communicate(timeout=PATIENCE)
    run = show(place)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.startswith(f"run {run['id']}: INTERRUPTED at {run['env_steps']:,} steps")
    assert f"rlctl resume {run['id']}" in stopped.stdout
    assert process.returncode == 143
    assert main(["stop", "last"]) == 2


def hang(place: Path) -> subprocess.Popen[str]:
    """A run inside an environment that does not come back."""
    process = start(
        place, "launch", "-f", "long.yaml", "--import", "hanging_world", "env.id=Hanging-v0", "ckpt.every_epochs=1"
    )
    wait_until_trained(place)
    (place / "hang").touch()
    wait_for((place / "hanging").exists)
    return process


def is_pending(pid: int, signum: int) -> bool:
    """Whether a signal was sent to the process and not yet taken."""
    mask = Path(f"/proc/{pid}/status").read_text().partition("ShdPnd:\t")[2].split()[0]
    return bool(int(mask, 16) & 1 << (signum - 1))


def test_a_second_ctrl_c_leaves_at_once_on_the_last_checkpoint(place: Path) -> None:
    """Newcomer S3: no word came, and the run was called orphaned."""
    process = hang(place)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: not is_pending(process.pid, signal.SIGINT))  # two that come together would be one
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "signal")
    assert err.splitlines()[-1].endswith(f"go on with: rlctl resume {run['id']}")
    assert run["checkpoints"]
    (place / "hang").unlink()
    assert here("resume", f"train.epochs={run['epoch'] + 1}") == 0


def test_a_run_that_cannot_reach_a_safe_point_leaves_without(place: Path) -> None:
    process = hang(place)
    stopped = rlctl(place, "stop", "last")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert stopped.returncode == 0
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "user")


def test_kill_9_shows_as_interrupted_and_resumes(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "ckpt.every_epochs=2")
    wait_until_trained(place, epochs=5)
    process.kill()
    process.communicate(timeout=PATIENCE)
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "orphaned")
    assert here("resume", run["id"][:24], f"train.epochs={run['epoch'] + 2}") == 0
    assert show(place)["state"] == "COMPLETED"


def test_logs_follow_a_run_until_ctrl_c_or_to_its_end(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "-q")
    wait_until_trained(place)
    left, logs = (start(place, "logs", "last", "-f") for _ in range(2))
    assert left.stdout is not None
    assert logs.stdout is not None
    assert "created" in left.stdout.readline()
    assert "created" in logs.stdout.readline()
    left.send_signal(signal.SIGINT)
    _, err = left.communicate(timeout=PATIENCE)
    assert (left.returncode, err) == (130, "")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    out, err = logs.communicate(timeout=PATIENCE)
    assert (logs.returncode, err) == (0, "")
    assert "interrupted  reason=signal" in out.splitlines()[-1]


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("command", ["ls", "algos", "schema", "envs --json", "--help", "--version"])
def test_a_reader_that_leaves_is_no_error(command: str, place: Path) -> None:
    pipe = closed_pipe()
    done = rlctl(place, *command.split(), stdout=pipe, stderr=subprocess.PIPE)
    os.close(pipe)
    assert done.stderr == ""
    assert done.returncode in (1, 141)


def test_a_run_survives_the_reader_of_its_output(place: Path) -> None:
    pipe = closed_pipe()
    done = rlctl(
        place,
        "launch",
        "-f",
        "long.yaml",
        "train.epochs=2",
        stdout=pipe,
        stderr=subprocess.PIPE,
    )
    os.close(pipe)
    assert (done.returncode, done.stderr) == (0, "")
    assert show(place)["state"] == "COMPLETED"


def test_ctrl_c_at_a_terminal(place: Path) -> None:
    """As a person does it: the display, ^C, the message with the way on, and a cursor that is still there."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
        os.execve(COMMAND[0], [*COMMAND, "launch", "-f", "long.yaml"], variables)
    seen = b""
    pressed = False
    while data := _read(terminal):
        seen += data
        if not pressed and b"policy_loss" in seen:
            os.write(terminal, b"\x03")
            pressed = True
    _, ended = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(ended) == 130
    shown = seen.decode()
    assert "long · ppo on CartPole-v1" in shown
    assert "go on with: rlctl resume" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def _read(terminal: int) -> bytes:
    """What the other side wrote; empty once it is gone, which Linux tells as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_one_algorithm_as_a_module(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["env.id=CartPole-v1", "train.epochs=1", "train.steps_per_epoch=256", "eval.final_episodes=2"]
    command = [sys.executable, "-m", "rlstudio.algos.ppo", *short]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "configs/ppo/cartpole.yaml, the preset for ppo on CartPole-v1" in done.stdout
    assert show(place)["state"] == "COMPLETED"
    monkeypatch.setattr(sys, "argv", ["ppo.py", "env.id=CartPole-v1", "train.lrr=1"])
    with pytest.raises(SystemExit) as left:
        algorithm.main("ppo")
    assert left.value.code == 2
    assert capsys.readouterr().err == "rlctl: override train.lrr=1: train.lrr: unknown key; did you mean lr?\n"


@pytest.mark.parametrize("program", ["rlctl", "rlstudio"])
def test_the_installed_programs(program: str) -> None:
    path = Path(sys.executable).parent / program
    if not path.exists():
        pytest.skip("RLStudio is not installed in this environment")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, f"rlstudio {__version__}\n")
    refused = subprocess.run([path, "run"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert refused.returncode == 2
    assert f"{program} run --help" in refused.stderr
