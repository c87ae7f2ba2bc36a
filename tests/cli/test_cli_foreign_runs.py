"""A runs folder of somebody else, in which nothing may be written: it can be looked at and taken from."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_scenario import rlctl_in_process
from support.processes import in_child

SOMEBODY_ELSE = 65534
COMMANDS = {
    "ls": "",
    "show last": "",
    "show last --lineage": "",
    "logs last": "",
    "queue": "",
    "models": "",
    "plot last": "",
    "plot last --out curve.png": "curve.png",
    "eval last --episodes 1": "",
    "play last --video film.mp4": "film.mp4",
    "export last -o bundle --format bundle": "bundle",
}
"""Each with the file that it writes, into the working directory."""

REFUSED = (
    "resume last train.epochs=9",
    "fork last train.epochs=9",
    "launch -f tiny.yaml",
    "rm last --yes",
    "queue --reap",
)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def without_privileges() -> None:
    """This process may no more than its user: root too is refused by the mode of a folder."""
    header = _CapabilityHeader(0x20080522, 0)
    none = (_Capabilities * 2)()
    assert ctypes.CDLL(None, use_errno=True).capset(ctypes.byref(header), none) == 0


@pytest.fixture
def foreign(trained: Path, place: Path) -> Iterator[Path]:
    folder = place / "foreign"
    shutil.copytree(trained, folder)
    content = [folder, *folder.rglob("*")]
    for path in content:
        path.chmod(0o555 if path.is_dir() else 0o444)
        if os.geteuid() == 0:
            os.chown(path, SOMEBODY_ELSE, SOMEBODY_ELSE)
    yield folder
    for path in content:
        if os.geteuid() == 0:
            os.chown(path, 0, 0)
        path.chmod(0o755)


def test_a_foreign_runs_folder_can_be_looked_at_and_taken_from(
    foreign: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Newcomer S2: reading a read-only runs folder was impossible."""
    before = {path: path.stat().st_mtime_ns for path in foreign.rglob("*")}

    def act() -> None:
        without_privileges()
        with pytest.raises(PermissionError):
            (foreign / "new").touch()
        rlctl = rlctl_in_process(capfd)
        for command, output in COMMANDS.items():
            done = rlctl(*command.split(), "--runs-dir", "foreign")
            assert (done.code, done.err) == (0, ""), command
            assert (place / output).exists()
        for command in REFUSED:
            done = rlctl(*command.split(), "--runs-dir", "foreign")
            assert (done.code, done.err.count("\n")) == (2, 1), command
            assert "no permission; change the folder's owner or mode, or choose another with --runs-dir" in done.err

    assert in_child(act) == 0, capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in foreign.rglob("*")} == before
