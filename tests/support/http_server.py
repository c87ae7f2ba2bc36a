"""Servers in this process, on a free port of the loopback address, and clients that say exactly what they like."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager

from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.roles import Role
from rlstudio.server.http.wire.running import ListenPlace, Server, listen, names_of
from support.deadlines import PATIENCE, SLOWNESS

TOKEN = "t" * 64
PATIENT = Limits(seconds=PATIENCE, idle_seconds=PATIENCE)
"""Deadlines that decide nothing."""

SECONDS = 2.0 * min(SLOWNESS, 5.0)
SHORT = Limits(seconds=SECONDS, idle_seconds=2 * SECONDS, unproven=64, grace_seconds=SECONDS / 2)
"""Deadlines that a test can wait for, and that a client without bad intent keeps, also where the machine is busy."""


def one_token() -> Access:
    access = Access()
    access.allow(TOKEN, Caller("client", Role.ACT))
    return access


class Running:
    """A server in a thread. `address` is where it listens, `host` what clients write."""

    def __init__(self, listener, server):
        self.address = listener.getsockname()[:2]
        self.host = f"127.0.0.1:{self.address[1]}"
        self.server = server

    def connect(self):
        return socket.create_connection(self.address, timeout=PATIENCE)

    def exchange(self, data):
        """All that comes back until the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return received(connection)

    def head(self, method="POST", path="/act", token=TOKEN, **headers):
        fixed = {"Host": self.host, **({"Authorization": f"Bearer {token}"} if token else {})}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in (fixed | headers).items()]
        return (f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode()


def received(connection):
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionError:
        pass
    return data


@contextmanager
def running(make_app, *, limits=PATIENT, allowed_hosts=(), certificate=None):
    """`make_app(hosts=..., limits=...)`."""
    listener = listen(ListenPlace("127.0.0.1", 0))
    app = make_app(hosts=names_of(listener, allowed_hosts), limits=limits)
    server, is_ready = Server(app, listener, limits=limits, certificate=certificate), threading.Event()
    thread = threading.Thread(target=server.serve_until_stopped, args=(is_ready.set,))
    place = Running(listener, server)
    thread.start()
    try:
        assert is_ready.wait(PATIENCE)
        yield place
    finally:
        server.stop()
        thread.join()


class Client:
    """One kept connection."""

    def __init__(self, place, token=TOKEN):
        self.connection = http.client.HTTPConnection("127.0.0.1", place.address[1], timeout=PATIENCE)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method, path, body=None, **headers):
        headers = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        kind = answer.headers["Content-Type"]
        return answer.status, json.loads(data) if kind.endswith("json") else data.decode()

    def close(self):
        self.connection.close()
