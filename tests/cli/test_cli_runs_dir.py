"""What a message says to type finds the runs of the command that said it, wherever they lie."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rlstudio.cli.screen.runs_dir import given_runs_dir, with_runs_dir
from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from support.cli_scenario import Rlctl
from support.experiments import tiny

AWAY = " --runs-dir 'my runs'"


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("go on with: rlctl resume 7", f"go on with: rlctl resume 7{AWAY}"),
        ("end it with: rlctl stop 7; or wait", f"end it with: rlctl stop 7{AWAY}; or wait"),
        ("rlctl pause 7, or rlctl cancel 7", f"rlctl pause 7{AWAY}, or rlctl cancel 7{AWAY}"),
        ("list them (rlctl ls)", f"list them (rlctl ls{AWAY})"),
        ("type `rlctl rm 7 --force`.", f"type `rlctl rm 7 --force{AWAY}`."),
        ("rlctl sweep --resume six.", f"rlctl sweep --resume six{AWAY}."),
        ("rlctl show 7 --runs-dir other", "rlctl show 7 --runs-dir other"),
        ("choose one (rlctl algos)", "choose one (rlctl algos)"),
        ("/home/rlctl resume", "/home/rlctl resume"),
    ],
)
def test_a_command_gets_the_runs_folder_where_its_sentence_ends(said: str, becomes: str) -> None:
    assert with_runs_dir(said, Path("my runs")) == becomes
    assert with_runs_dir(said, Path("runs")) == said


def test_the_folder_is_that_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_runs_dir(["ls", "--runs-dir", "a"]) == given_runs_dir(["ls", "--runs-dir=a"]) == Path("a")
    assert given_runs_dir(["ls", "--runs-dir"]) == given_runs_dir([]) == Path("runs")
    monkeypatch.setenv("RLSTUDIO_RUNS_DIR", "b")
    assert given_runs_dir(["ls"]) == Path("b")


def test_what_rooms_below_say_to_type_works_as_it_stands(rlctl: Rlctl, trained: Path, place: Path) -> None:
    """Newcomer S3: a remedy without `--runs-dir` led to `there are no runs`."""
    shutil.copytree(trained, place / "my runs")
    refused = rlctl("resume", "last", "--runs-dir", "my runs")
    line = re.search(r"extend it with: rlctl (.*)\n", refused.err)
    assert (refused.code, line is not None) == (2, True), refused.err
    assert line is not None
    assert rlctl(*shlex.split(line[1]), "-q").code == 0
    with start_session(Workspace(place / "my runs"), tiny()) as session:
        next(iter(session))
    shown = rlctl("show", "last", "--runs-dir", "my runs").out
    line = re.search(r"go on with: rlctl (.*)\n", shown)
    assert line is not None, shown
    assert rlctl(*shlex.split(line[1]), "-q").code == 0


def test_doctor_says_that_a_folder_holds_no_runs(rlctl: Rlctl, place: Path) -> None:
    """A misspelt folder was `all is in order`, and nothing else."""
    done = rlctl("doctor", "--runs-dir", "rnus")
    assert done.out.splitlines()[0] == "no runs in rnus yet: looked at the packages"
