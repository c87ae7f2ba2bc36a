"""`rlctl` inside this process (quick), in a folder of its own, and one small trained run for every test that reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlstudio.cli import app
from rlstudio.cli.app import main
from rlstudio.control.store.resources import Slots
from support.cli_scenario import TINY, Rlctl, all_commands, rlctl_in_process
from support.known_once import commit_asked_anew


@pytest.fixture
def rlctl(capsys: pytest.CaptureFixture[str]) -> Rlctl:
    return rlctl_in_process(capsys)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with one experiment in it; runs go to `runs/` below it. What is put into the queue stays
    there: a worker in the background would train it beside the tests that follow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(app, "get_command", lambda _: all_commands())  # building them takes longer than some commands
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker is started beside the seeds of a launch: they are trained here, one after the other."""
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(1))


@pytest.fixture
def run_here(trained: Path, place: Path) -> str:
    """The id of a finished run in `runs/` here, for a test to change."""
    shutil.copytree(trained, place / "runs")
    (folder,) = (place / "runs").glob("2*")
    return folder.name


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with one finished run in it. Tests that change a run take `run_here`, or make their own."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.yaml").write_text(TINY)
    with commit_asked_anew():
        assert main(["launch", "-f", str(folder / "tiny.yaml"), "--runs-dir", str(folder / "runs"), "--quiet"]) == 0
    return folder / "runs"
