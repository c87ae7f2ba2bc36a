"""The PostgreSQL server of the tests: from the PATH or from a wheel, and never left behind."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from support.postgres import PARTS, WHEEL, Postgres

pytestmark = pytest.mark.real_process


@pytest.fixture
def no_server_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def answer(server: Postgres) -> object:
    with psycopg.connect(server.new_database().replace("+psycopg", "")) as connection:
        return connection.execute("SELECT 6 * 7").fetchone()


@pytest.mark.usefixtures("no_server_on_the_path")
def test_without_one_on_the_path_the_wheel_has_one() -> None:
    with Postgres() as server:
        assert WHEEL in str(server.programs)
        assert answer(server) == (42,)
    assert not server.folder.exists()


@pytest.mark.usefixtures("no_server_on_the_path")
def test_programs_in_a_folder_that_is_closed_to_the_server_are_copied(monkeypatch, tmp_path) -> None:
    """Root starts the server as another user; anybody else starts it as themselves and reaches their own folder."""
    installed = Path(str(find_spec(WHEEL).origin)).parents[1]
    closed = tmp_path / "home"
    for part in PARTS:
        shutil.copytree(installed / part, closed / part, symlinks=True)
    (closed / WHEEL / "__init__.py").touch()
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(closed)
    with Postgres() as server:
        assert server.programs.is_relative_to(server.folder if os.getuid() == 0 else closed)
        assert answer(server) == (42,)


def test_it_goes_with_a_starter_that_is_killed() -> None:
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.postgres import Postgres
server = Postgres().__enter__()
print(server.folder, server._server.pid, flush=True)
time.sleep(600)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    folder, pid = starter.stdout.readline().split()
    descriptor = os.pidfd_open(int(pid))
    try:
        starter.send_signal(signal.SIGKILL)
        starter.communicate()
        select.select([descriptor], [], [])  # readable once it has ended
    finally:
        os.close(descriptor)
        shutil.rmtree(folder)
