"""One owner at a time: a second process is refused, a dead one leaves no trace, a stale one is fenced."""

import os
import signal
import subprocess
import sys

import pytest

from rlstudio.core.errors import LeaseLost, RunBusy
from rlstudio.experiment.folder.lease import FileLease

pytestmark = pytest.mark.real_process

HOLD = """
import sys, time
from pathlib import Path
from rlstudio.experiment.folder.lease import FileLease
lease = FileLease(Path(sys.argv[1]))
print("held", lease.token, flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held 1\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path, holder):
    with pytest.raises(RunBusy) as caught:
        FileLease(tmp_path)
    line = str(caught.value)
    assert f"process {holder.pid} on {os.uname().nodename}" in line
    assert f"rlctl stop {tmp_path.name}" in line
    assert "\n" not in line
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with FileLease(tmp_path) as lease:
        assert lease.token == 2
        lease.check()


def test_a_second_lease_in_the_same_process_is_refused_too(tmp_path):
    with FileLease(tmp_path), pytest.raises(RunBusy):
        FileLease(tmp_path)


def test_the_token_grows_and_release_ends_it(tmp_path):
    tokens = []
    for _ in range(3):
        lease = FileLease(tmp_path)
        tokens.append(lease.token)
        lease.check()
        lease.release()
        lease.release()
        with pytest.raises(LeaseLost, match="released"):
            lease.check()
    assert tokens == [1, 2, 3]


def test_takeover_is_noticed(tmp_path):
    """A network disk that forgot the lock, or a lock file that was deleted: the record still tells."""
    stale = FileLease(tmp_path)
    (tmp_path / ".lock").unlink()
    with pytest.raises(LeaseLost):
        stale.check()
    fresh = FileLease(tmp_path)
    fresh.check()
    with pytest.raises(LeaseLost, match=f"process {os.getpid()}"):
        stale.check()
    stale.release()
    fresh.check()
    fresh.release()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"token": "x"}', b"\xff"])
def test_a_damaged_record_stops_nobody_and_fences_still(tmp_path, damage):
    old = FileLease(tmp_path)
    (tmp_path / "lease.json").write_bytes(damage)
    with pytest.raises(LeaseLost):
        old.check()
    old.release()
    with FileLease(tmp_path) as new:
        assert new.token == old.token == 1
        new.check()


def test_a_run_folder_that_moved_away_is_lost(tmp_path):
    (tmp_path / "run").mkdir()
    lease = FileLease(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    (tmp_path / "run").mkdir()
    with pytest.raises(LeaseLost):
        lease.check()
    lease.release()


def test_taking_it_removes_leftovers(tmp_path):
    (tmp_path / ".tmp-abc").write_text("half a status")
    (tmp_path / ".trash-abc").mkdir()
    FileLease(tmp_path).release()
    assert sorted(os.listdir(tmp_path)) == [".lock", "lease.json"]


def test_a_forked_child_does_not_keep_the_run(tmp_path):
    """It shares the lock's descriptor; if it outlived a killed parent, nobody could resume."""
    lease = FileLease(tmp_path)
    (read, write), (started, say_started) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say_started, b"x")
        os.read(read, 1)
        os._exit(0)
    os.read(started, 1)
    lease.release()  # as far as the lock goes, the same as the death of this process
    try:
        with FileLease(tmp_path) as taken:
            assert taken.token == lease.token + 1
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        for descriptor in (read, write, started, say_started):
            os.close(descriptor)
