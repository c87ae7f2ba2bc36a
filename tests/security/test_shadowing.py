"""A file in the working directory never stands in for a library, in none of the processes that a command starts; and a
module that a run was launched with is found wherever its worker runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from rlstudio.control.queue.runner import _enter_directory
from rlstudio.control.runs.start import request_of
from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import RunState
from support import rlctl_process
from support.cli_scenario import TINY
from support.deadlines import PATIENCE
from support.experiments import tiny
from support.rlctl_process import wait_for

pytestmark = pytest.mark.real_process

# `-P`, as the installed program has it: `python -c` itself would look in the working directory first.
RLCTL = [sys.executable, "-P", "-c", "import sys; from rlstudio.cli.app import main; sys.exit(main())"]
LIBRARIES = ("json", "sqlalchemy", "numpy", "gymnasium", "torch", "socket")

WORLD = """\
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Beside(CartPoleEnv):
    def reset(self, **options):
        assert open("level.txt").read() == "two rooms"  # beside the module, as projects have their files
        return super().reset(**options)


gymnasium.register("Beside-v0", entry_point="world_beside:Beside", max_episode_steps=20)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY)
    for name in LIBRARIES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    return tmp_path


def rlctl(place: Path, *args: object) -> str:
    command = [*RLCTL, *map(str, args)]
    done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_b4_no_process_takes_a_library_from_the_working_directory(place: Path) -> None:
    """The command, the worker of the queue that it starts, that one's run, and the run's workers of environments."""
    run_id = rlctl(place, "launch", "-f", "tiny.yaml", "env.vectorization=async", "env.num_envs=2", "--detach", "-q")
    workspace = Workspace(place / "runs")
    wait_for(lambda: workspace.find(run_id).status.state == RunState.COMPLETED)
    wait_for(lambda: not workspace.workers.listed())  # it leaves by itself when nothing is queued
    assert not (place / "ran").exists()


def test_b8_a_worker_in_another_directory_finds_the_module_and_the_files_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)
    (tmp_path / "project").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    Path("tiny.yaml").write_text(TINY)
    Path("world_beside.py").write_text(WORLD)
    Path("level.txt").write_text("two rooms")
    command = ["launch", "--import", "world_beside", "-f", "tiny.yaml", "env.id=Beside-v0", "--detach", "-q"]
    assert main([*command, "env.vectorization=async"]) == 0
    sys.modules.pop("world_beside")
    run_id = capsys.readouterr().out.strip()
    served = rlctl_process.rlctl(
        tmp_path / "other", "worker", "--until-idle", "--runs-dir", tmp_path / "project" / "runs"
    )
    assert (served.returncode, served.stderr) == (0, "")
    status = Workspace(Path("runs")).find(run_id).status
    assert (status.state, status.message) == (RunState.COMPLETED, "")


def test_b8_a_directory_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    workspace = Workspace(tmp_path / "runs")
    run = workspace.store.create(request_of(tiny()))
    monkeypatch.chdir(tmp_path)
    _enter_directory(workspace, run.id)
    assert Path.cwd() == tmp_path / "project"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").rmdir()
    _enter_directory(workspace, run.id)
    assert Path.cwd() == tmp_path
    said = (
        f"was launched in {tmp_path / 'project'}, which cannot be entered here (No such file or directory); it runs in"
    )
    assert said in capsys.readouterr().err
