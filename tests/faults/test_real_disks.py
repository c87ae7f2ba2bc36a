"""A real small disk, mounted for a process of its own: full, and read-only while a run trains."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from rlstudio.control.runs.start import start_session
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import StorageError
from support.deadlines import PATIENCE
from support.experiments import tiny, tiny_yaml
from support.processes import in_child

LOOKS = (("show", "last", "--json"), ("ls", "--json"), ("logs", "last"))


def rlctl(*args: str) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(args)
    return code, out.getvalue(), err.getvalue()


def tear_a_transaction(store: Path) -> None:
    """Die in the middle of one that has reached the disk: the next reader finds a hot journal."""

    def write() -> None:
        connection = sqlite3.connect(store, isolation_level=None)
        connection.execute("pragma cache_size = 1")
        connection.execute("begin immediate")
        connection.execute("create table torn (text)")
        for _ in range(100):
            connection.execute("insert into torn values (hex(randomblob(2000)))")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(write) == signal.SIGKILL
    assert store.with_name("store.db-journal").stat().st_size > 0


def full_disk() -> None:
    """A run that died on a disk that is full now: looking works, before and after."""
    assert rlctl("launch", "-f", "tiny.yaml", "-q")[0] == 0
    tear_a_transaction(Path("runs/.rlstudio/store.db"))
    with contextlib.suppress(OSError), open("filler", "wb", buffering=0) as filler:
        while True:
            filler.write(bytes(1 << 16))
    assert os.statvfs(".").f_bavail == 0
    shown = {}
    for command in LOOKS:
        code, shown[command], err = rlctl(*command)
        assert (code, err) == (0, ""), command
    assert json.loads(shown[LOOKS[0]])["state"] == "COMPLETED"
    os.unlink("filler")
    for command in LOOKS:
        assert rlctl(*command) == (0, shown[command], "")


def train_until_read_only() -> None:
    with start_session(Workspace(Path("runs")), tiny(train={"epochs": 6})) as session:
        ticks = iter(session)
        while next(ticks).epoch < 2:
            pass
        # As a second mount over the first: a remount is refused while files are open for writing.
        subprocess.run(["mount", "-o", "bind", ".", "."], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", os.getcwd()], check=True)
        with pytest.raises(StorageError, match="read-only"):
            for _ in ticks:
                pass


def read_only_disk() -> None:
    """The kernel makes a disk read-only after errors: the run ends in one line, and goes on when it is back."""
    assert in_child(train_until_read_only) == 0
    os.chdir(os.getcwd())  # into what is mounted over it
    run_id = Workspace(Path("runs")).find("last").id
    for command in LOOKS:
        code, _, err = rlctl(*command)
        assert (code, err) == (0, ""), command
    for command in (("launch", "-f", "tiny.yaml"), ("resume", run_id), ("rm", run_id)):
        code, _, err = rlctl(*command, "-q") if command[0] != "rm" else rlctl(*command)
        assert (code in (2, 3), err.count("\n")) == (True, 1), (command, err)
        assert "read-only" in err, (command, err)
    subprocess.run(["mount", "-o", "remount,bind,rw", os.getcwd()], check=True)
    resumed = rlctl("resume", run_id, "-q")
    assert resumed[0] == 0, resumed


@pytest.mark.real_process
@pytest.mark.slow
def test_row_46_looking_works_on_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    inside = ["unshare", "--mount"]
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(tmp_path)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, *mount], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user may not mount")
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(tests)!r}); from faults.test_real_disks import act; act()"
    script = f'{" ".join(mount)} && cd {tmp_path} && exec {sys.executable} -P -c "$CODE"'
    command = [*inside, "sh", "-c", script]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "CODE": code}
    )
    assert done.returncode == 0, done.stderr


def act() -> None:
    Path("tiny.yaml").write_text(tiny_yaml())
    full_disk()
    read_only_disk()
