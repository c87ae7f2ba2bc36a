"""What answers at once: these commands never import torch, and most of them nothing heavy at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.deadlines import PATIENCE

CODE = """
import sys
sys.argv[0] = "rlctl"
from rlstudio.cli.app import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
print(*sorted({name.partition(".")[0] for name in sys.modules}), sep=",", file=sys.stderr)
sys.exit(code)
"""

ONE_AFTER_ANOTHER = """
import contextlib, sys
from rlstudio.cli.app import main
with open("answers", "w") as answers:
    for command in sys.argv[1:]:
        with contextlib.redirect_stdout(answers), contextlib.redirect_stderr(answers):
            assert main(command.split()) in (0, 2), command
        print(f"after {command}:", sorted({"torch", "gymnasium", "rich"} & set(sys.modules)), file=sys.stderr)
"""


def loaded_by(*args: str, **variables: str) -> tuple[str, set[str]]:
    """What a command prints and the packages that it left in memory."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *args],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr
    return done.stdout, set(done.stderr.splitlines()[-1].split(","))


@pytest.fixture
def run(place: Path) -> RunFolder:
    folder = RunFolder.create(
        place / "runs",
        NewRun(name="sleeper", algo="ppo", env_id="CartPole-v1", config_yaml="{}"),
        state=RunState.INTERRUPTED,
    )
    folder.close()
    return folder


@pytest.mark.parametrize("command", ["--help", "--version", "", "launch --help", "show --help"])
def test_help_imports_nothing_heavy(command: str) -> None:
    out, packages = loaded_by(*command.split())
    assert out
    assert not packages & {"torch", "numpy", "gymnasium", "rich", "yaml"}
    assert "pydantic" not in packages or not command.startswith("--")  # Typer itself reads arguments with it


READING = (
    "ls",
    "ls --json",
    "show last",
    "show last --json",
    "logs last",
    "stop last",
    "rm last --yes",
    "algos",
    "presets",
    "algos --json",
    "plugins",
    "plugins --json",
    "show nobody",
    "lunch",
)


def test_reading_commands_never_import_torch(run: RunFolder) -> None:
    """All in one process: nothing heavy is there after the last one, and the first to import any is named."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, *READING],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr.splitlines()[-len(READING) :] == [f"after {command}: []" for command in READING]


def offers(words: str) -> list[str]:
    """What Tab offers after these words."""
    given = words.split(" ")
    variables = {"_RLCTL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(given) - 1)}
    out, packages = loaded_by(**variables)
    assert "torch" not in packages
    return out.split()


def test_completion_of_runs(run: RunFolder) -> None:
    assert offers("rlctl show ") == ["last", "sleeper", run.id[-4:]]
    assert offers("rlctl logs sle") == ["sleeper"]
    assert offers(f"rlctl plot last {run.id[:4]}") == [run.id]


def test_completion_of_names() -> None:
    assert offers("rlctl launch --algo p") == ["ppo"]
    assert offers("rlctl check CartPole-v") == ["CartPole-v0", "CartPole-v1"]
    assert offers("rlctl lau") == ["launch"]
    assert "configs/ppo/cartpole.yaml" in offers("rlctl launch -f configs/ppo/")
    assert offers("rlctl run ti") == ["tiny.yaml"]


def test_completion_looks_into_the_given_folder(run: RunFolder, place: Path) -> None:
    (place / "runs").rename(place / "elsewhere")
    assert offers("rlctl show ") == []
    assert "sleeper" in offers("rlctl show --runs-dir elsewhere ")


def test_completion_scripts_exist() -> None:
    out, _ = loaded_by(_RLCTL_COMPLETE="source_bash")
    assert "_RLCTL_COMPLETE" in out
