"""A real PostgreSQL server of our own: in a throw-away folder, on a socket there, and gone with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import psycopg

PORT = 5432  # part of the socket's name; nothing listens on the network


class Postgres:
    """Started with the `with`. The server refuses to be root, so root becomes nobody."""

    def __enter__(self) -> Postgres:
        self.folder = Path(tempfile.mkdtemp(prefix="rlstudio-pg-"))  # short: a socket's path has 107 characters
        self._owner = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._databases = 0
        try:
            self._run(
                "initdb", "--pgdata=data", "--username=tester", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8"
            )
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

    def _run(self, *command: str) -> None:
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
        with (self.folder / "log").open("wb") as log:
            command = ["setpriv", "--pdeathsig=INT", "postgres", "-D", "data", *options]  # it goes when we are killed
            server = subprocess.Popen(command, stderr=log, stdout=log, **self._as_owner())  # type: ignore[call-overload]
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
