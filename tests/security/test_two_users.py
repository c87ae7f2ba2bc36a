"""A second user of the machine, with a number and no name: what is not theirs is refused in one line, and stays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from support.cli_scenario import TINY
from support.processes import in_child

pytestmark = [
    pytest.mark.real_process,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users"),
]

ANNA, BERT = 54_321, 54_322  # without an entry in /etc/passwd

COMMANDS = (
    ("ls",),
    ("show", "last"),
    ("logs", "last"),
    ("queue",),
    ("gc",),
    ("stop", "last"),
    ("resume", "last", "train.epochs=4", "-q"),
    ("eval", "last", "--episodes", "1"),
    ("rm", "last", "--yes"),
    ("launch", "-f", "tiny.yaml", "-q"),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    above = [folder for folder in tmp_path.parents if folder.is_relative_to(tempfile.gettempdir())]
    for folder in (tmp_path, *above[:-1]):  # the last one is for all users already
        folder.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.chdir(shared)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    Path("tiny.yaml").write_text(TINY)
    return shared


@pytest.fixture(scope="module", autouse=True)
def _everything_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """These users cannot read where this Python may lie."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "tiny.yaml").write_text(TINY)
    for command in (("launch", "-f", str(folder / "tiny.yaml"), "-q"), *COMMANDS[:-1]):
        main([*command, "--runs-dir", str(folder / "runs")])


def as_user(uid: int, act: Callable[[], object]) -> None:
    def changed() -> None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        act()

    assert in_child(changed) == 0


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "shared", [pytest.param(name, marks=pytest.mark.slow) for name in ("nothing", "the folder")] + ["the store"]
)
def test_two_users_of_one_runs_folder(place: Path, capfd: pytest.CaptureFixture[str], shared: str) -> None:
    as_user(ANNA, lambda: main(["launch", "-f", "tiny.yaml", "-q"]) and os._exit(1))
    (run,) = place.glob("runs/2*")
    if shared != "nothing":
        Path("runs").chmod(0o777)
        Path("runs/.rlstudio").chmod(0o777 if shared == "the store" else 0o755)
    if shared == "the store":
        Path("runs/.rlstudio/store.db").chmod(0o666)
    before = files(run)
    for command in COMMANDS:
        capfd.readouterr()
        as_user(BERT, lambda command=command: Path("code").write_text(str(main(list(command)))))
        code, err = int(Path("code").read_text()), capfd.readouterr().err
        Path("code").unlink()
        assert code in (0, 2, 3), (command, err)
        assert err.count("\n") == (1 if code else 0), (command, err)
        if shared != "the store":
            assert code, command
    assert files(run) == before
    as_user(ANNA, lambda: main(["resume", run.name, "train.epochs=4", "-q"]) and os._exit(1))
