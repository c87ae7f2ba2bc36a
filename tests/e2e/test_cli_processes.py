"""Real processes: stopped, killed, refused, piped. Every one leaves a run that goes on exactly."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from rlctl_process import HANGING_MODULE, LONG, PATIENCE, rlctl, show, start, wait_for, wait_until_trained

pytestmark = pytest.mark.real_process


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Path:
    (tmp_path / "long.yaml").write_text(LONG)
    (tmp_path / "hanging_world.py").write_text(HANGING_MODULE)
    return tmp_path


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: str(value),
)
def test_a_stopped_run_goes_on_exactly(signum: signal.Signals, code: int, place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml")
    wait_until_trained(place)
    process.send_signal(signum)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "signal")
    assert err.count("\n") == 1
    assert signum.name in err
    assert err.rstrip().endswith(f"go on with: rlctl resume {run['id']}")
    assert "Traceback" not in out + err
    assert run["checkpoints"][-1]["state_hash"] == run["state_hash"]

    epochs = run["epoch"] + 2
    assert rlctl(place, "resume", f"train.epochs={epochs}").returncode == 0
    rlctl(place, "launch", "-f", "long.yaml", f"train.epochs={epochs}", "--runs-dir", "straight", "-q")
    straight = Path(rlctl(place, "ls", "--runs-dir", "straight").stdout.splitlines()[1].split()[0])
    uninterrupted = rlctl(place, "show", straight, "--runs-dir", "straight", "--json")
    assert f'"state_hash": "{show(place)["state_hash"]}"' in uninterrupted.stdout


def test_stop_ends_the_right_process_and_says_so(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "-q")
    wait_until_trained(place)
    stopped = rlctl(place, "stop", "last")
    process.communicate(timeout=PATIENCE)
    run = show(place)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.startswith(f"run {run['id']}: INTERRUPTED at {run['env_steps']:,} steps")
    assert f"rlctl resume {run['id']}" in stopped.stdout
    assert process.returncode == 143
    assert rlctl(place, "stop", "last").returncode == 2


def test_a_second_process_on_the_same_run_is_refused(place: Path) -> None:
    first = start(place, "launch", "-f", "long.yaml", "-q")
    try:
        wait_until_trained(place)
        second = rlctl(place, "resume", "last")
        assert (second.returncode, second.stdout) == (2, "")
        assert second.stderr.count("\n") == 1
        assert f"process {first.pid}" in second.stderr
        assert "rlctl stop" in second.stderr
        removed = rlctl(place, "rm", "last", "--yes")
        assert removed.returncode == 2
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=PATIENCE)
    assert show(place)["state"] == "INTERRUPTED"


def hang(place: Path) -> subprocess.Popen[str]:
    """A run inside an environment that does not come back."""
    process = start(
        place, "launch", "-f", "long.yaml", "--import", "hanging_world", "env.id=Hanging-v0", "ckpt.every_epochs=1"
    )
    wait_until_trained(place)
    (place / "hang").touch()
    wait_for((place / "hanging").exists)
    return process


def test_a_second_ctrl_c_leaves_at_once_on_the_last_checkpoint(place: Path) -> None:
    process = hang(place)
    process.send_signal(signal.SIGINT)
    status = Path(f"/proc/{process.pid}/status")
    interrupt = 1 << (signal.SIGINT - 1)
    pending = lambda: int(status.read_text().partition("ShdPnd:\t")[2].split()[0], 16) & interrupt  # noqa: E731
    wait_for(lambda: not pending())  # two signals of a kind that come together are one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    run = show(place)
    assert run["state"] == "INTERRUPTED"
    assert run["checkpoints"]
    (place / "hang").unlink()
    assert rlctl(place, "resume", f"train.epochs={run['epoch'] + 1}").returncode == 0


def test_a_run_that_cannot_reach_a_safe_point_leaves_without(place: Path) -> None:
    process = hang(place)
    stopped = rlctl(place, "stop", "last")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert stopped.returncode == 0
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "signal")


def test_kill_9_shows_as_interrupted_and_resumes(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "ckpt.every_epochs=2")
    wait_until_trained(place, epochs=5)
    process.kill()
    process.communicate(timeout=PATIENCE)
    run = show(place)
    assert (run["state"], run["reason"]) == ("INTERRUPTED", "orphaned")
    done = rlctl(place, "resume", run["id"][:24], f"train.epochs={run['epoch'] + 2}", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert show(place)["state"] == "COMPLETED"


def test_logs_follow_a_run_to_its_end(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "-q")
    wait_until_trained(place)
    logs = start(place, "logs", "last", "-f")
    assert logs.stdout is not None
    assert "created" in logs.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    out, err = logs.communicate(timeout=PATIENCE)
    assert (logs.returncode, err) == (0, "")
    assert "interrupted  reason=signal" in out.splitlines()[-1]


def test_ctrl_c_leaves_logs_quietly(place: Path) -> None:
    process = start(place, "launch", "-f", "long.yaml", "-q")
    wait_until_trained(place)
    logs = start(place, "logs", "last", "-f")
    assert logs.stdout is not None
    logs.stdout.readline()
    logs.send_signal(signal.SIGINT)
    _, err = logs.communicate(timeout=PATIENCE)
    assert (logs.returncode, err) == (130, "")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("command", ["ls", "algos", "schema", "envs --json", "--help", "--version"])
def test_a_reader_that_leaves_is_no_error(command: str, place: Path) -> None:
    pipe = closed_pipe()
    done = rlctl(place, *command.split(), capture_output=False, stdout=pipe, stderr=subprocess.PIPE)
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
        capture_output=False,
        stdout=pipe,
        stderr=subprocess.PIPE,
    )
    os.close(pipe)
    assert (done.returncode, done.stderr) == (0, "")
    assert show(place)["state"] == "COMPLETED"


def test_ctrl_c_at_a_terminal(place: Path) -> None:
    """As a person does it: the display, ^C, the message with the way on, and a terminal that is as before."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*start.__globals__["COMMAND"], "launch", "-f", "long.yaml"],
        cwd=place,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the controlling terminal
    )
    os.close(follower)
    seen = b""
    sent = False
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        seen += data
        if not sent and b"policy_loss" in seen:
            os.write(leader, b"\x03")
            sent = True
    assert process.wait(timeout=PATIENCE) == 130
    os.close(leader)
    shown = seen.decode()
    assert "epoch" in shown
    assert "go on with: rlctl resume" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l"), "the cursor is back"


def test_one_algorithm_as_a_module(place: Path) -> None:
    import sys

    command = [sys.executable, "-m", "rlstudio.algos.ppo"]
    options = {"cwd": place, "capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
    tiny = ["env.id=CartPole-v1", "train.epochs=1", "train.steps_per_epoch=256", "eval.final_episodes=2"]
    done = subprocess.run([*command, *tiny], **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert "configs/ppo/cartpole.yaml, the preset for ppo on CartPole-v1" in done.stdout
    assert show(place)["state"] == "COMPLETED"
    wrong = subprocess.run([*command, "env.id=CartPole-v1", "train.lrr=1"], **options)  # type: ignore[call-overload]
    assert wrong.returncode == 2
    assert wrong.stderr == "rlctl: override train.lrr=1: train.lrr: unknown key; did you mean lr?\n"


@pytest.mark.parametrize("program", ["rlctl", "rlstudio"])
def test_the_installed_programs(program: str, place: Path) -> None:
    import sys

    path = Path(sys.executable).parent / program
    if not path.exists():
        pytest.skip("RLStudio is not installed in this environment")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "rlstudio 0.1.0\n")
    refused = subprocess.run([path, "run"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert refused.returncode == 2
    assert f"{program} run --help" in refused.stderr
