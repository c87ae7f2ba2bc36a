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

TAB_AFTER_TAB = """
import os, sys
from rlstudio.cli.app import main
lines, sys.argv = sys.argv[1:], ["rlctl"]
for words in lines:
    os.environ.update(_RLCTL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    try:
        main()
    except SystemExit:
        pass
    print(chr(0), end="", flush=True)
sys.exit("torch" in sys.modules and "Tab imports torch")
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
    "zoo",
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


def offers(*lines: str) -> list[list[str]]:
    """What Tab offers after the words of each line, asked for in one process."""
    done = subprocess.run(
        [sys.executable, "-c", TAB_AFTER_TAB, *lines], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    *offered, rest = done.stdout.split(chr(0))
    assert rest == ""
    return [words.split() for words in offered]


def test_completion_of_runs(run: RunFolder) -> None:
    assert offers("rlctl show ", "rlctl logs sle", f"rlctl plot last {run.id[:4]}") == [
        ["last", "sleeper", run.id[-4:]],
        ["sleeper"],
        [run.id],
    ]


def test_completion_of_names() -> None:
    algos, envs, commands, configs, files = offers(
        "rlctl launch --algo p",
        "rlctl check CartPole-v",
        "rlctl lau",
        "rlctl launch -f configs/ppo/",
        "rlctl run ti",
    )
    assert (algos, envs, commands) == (["ppo"], ["CartPole-v0", "CartPole-v1"], ["launch"])
    assert "configs/ppo/cartpole.yaml" in configs
    assert files == ["tiny.yaml"]


def test_completion_looks_into_the_given_folder(run: RunFolder, place: Path) -> None:
    (place / "runs").rename(place / "elsewhere")
    here, there = offers("rlctl show ", "rlctl show --runs-dir elsewhere ")
    assert here == []
    assert "sleeper" in there


def test_completion_scripts_exist() -> None:
    out, _ = loaded_by(_RLCTL_COMPLETE="source_bash")
    assert "_RLCTL_COMPLETE" in out
