"""Processes that tests fork from warm ones have the files that they are given, whatever else is open."""

import gc
import os
import subprocess
import sys

import pytest

from support import warm_python
from support.processes import in_child

READER = "support.given_files"


class Ring:
    """A file that is closed when garbage is collected, and not before."""

    def __init__(self) -> None:
        self.file = open(os.devnull)  # noqa: SIM115
        self.own = self


def read_by_another(*others: int) -> int:
    """The exit code of a process that is given a descriptor to read, and looks at the others that are open here."""
    read, write = os.pipe()
    os.write(write, b"here")
    command = [sys.executable, "-P", "-m", READER, str(read), *map(str, others)]
    return subprocess.Popen(command, pass_fds=[read]).wait()


@pytest.fixture(autouse=True)
def _reader_is_forked(monkeypatch):
    monkeypatch.setitem(warm_python.MODULES, READER, warm_python.COMMANDS)


def test_garbage_does_not_close_what_a_forked_process_is_given():
    def act():
        gc.disable()
        for _ in range(20):
            Ring()
        warm_python.fork_from_here_on()
        gc.collect()  # their numbers are free here, and not where the process is forked
        assert read_by_another() == 0

    assert in_child(act) == 0


def test_what_is_open_where_a_process_is_forked_stays_open():
    def act():
        numbers = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]
        for number in numbers[::3]:
            os.close(number)
        warm_python.fork_from_here_on()
        assert read_by_another(*numbers[1::3], *numbers[2::3]) == 0

    assert in_child(act) == 0
