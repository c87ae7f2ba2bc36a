"""A server from its listening socket to its end."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from rlstudio.core.errors import UserError
from rlstudio.core.host.floors import require_floors
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.wire.connections import Connections, Listener
from rlstudio.server.http.wire.protocol import GuardedProtocol

BACKLOG = 256
RECEIVED_BYTES = 32 * 1024
STOP_SECONDS = 2
"""For answers that are under way when the server is asked to end."""


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path | None


@dataclass(frozen=True)
class ListenPlace:
    """Where a server listens, and by which names."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()
    certificate: Certificate | None = None


def listen(place: ListenPlace) -> Listener:
    """Before anything else starts: an address that cannot be had is the user's mistake."""
    require_floors("serve")
    host, port = place.host, place.port
    listener = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Both are kept by what is accepted. An answer is one small write, and waiting for more would cost 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Of each client, this much is held before anybody looks at it, and parsed before others have a turn.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UserError(f"--host {host} --port {port}: {error.strerror or error}; choose others") from error
    return listener


def names_of(listener: Listener, allowed: tuple[str, ...] = ()) -> frozenset[str]:
    """What clients may write as `Host`. Exact names: a page of another site, whose own name was made to lead here,
    sends that name."""
    host, port = listener.getsockname()[:2]
    url_host = f"[{host}]" if ":" in host else str(host)
    names = {url_host, *allowed} | ({"localhost"} if is_loopback(str(host)) else set())
    default = {name for name in names if port in (80, 443)}
    return frozenset(name.lower() for name in {f"{name}:{port}" for name in names} | set(allowed) | default)


def url_of(listener: Listener, certificate: Certificate | None) -> str:
    host, port = listener.getsockname()[:2]
    url_host = f"[{host}]" if ":" in host else str(host)
    return f"{'https' if certificate else 'http'}://{url_host}:{port}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warn_of_plain_http(place: ListenPlace, complain: Callable[[str], None]) -> None:
    """Not refused: a proxy in front of it may speak TLS, or a container's network may end on this machine."""
    if place.certificate is None and not is_loopback(place.host):
        complain(
            f"--host {place.host}: over plain HTTP, tokens can be read on the way; give --tls-cert and --tls-key, or"
            " listen on 127.0.0.1 and forward the port with ssh -L"
        )


def read_certificate(file: Path | None, key: Path | None) -> Certificate | None:
    if file is None:
        if key is not None:
            raise UserError("--tls-key: needs --tls-cert beside it")
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason
        raise UserError(f"--tls-cert {file}: cannot be used ({reason}); name a PEM file, and its --tls-key") from error
    return Certificate(file, key)


class Server(uvicorn.Server):
    """Runs one application; `run` returns after SIGINT, SIGTERM or `stop`."""

    def __init__(
        self, app: FastAPI, listener: Listener, *, limits: Limits | None = None, certificate: Certificate | None = None
    ) -> None:
        within = (limits or Limits()).within_descriptors()
        listener.connections = Connections(within)
        members = {"limits": within, "places": listener.connections}
        config = uvicorn.Config(
            app,
            http=type("Protocol", (GuardedProtocol,), members),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=within.header_bytes + within.target,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=None if certificate is None else str(certificate.file),
            ssl_keyfile=None if certificate is None or certificate.key is None else str(certificate.key),
        )
        super().__init__(config)
        self._app, self._listener = app, listener

    def serve_until_stopped(self, ready: Callable[[], object] = lambda: None) -> None:
        """`ready` is called when clients can connect."""
        _silence_uvicorn()
        self._ready = ready
        self.run(sockets=[self._listener])

    def stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.stopping.set()  # event streams end by themselves
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but without raising the signal once more at the end: being asked to end is no failure."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._asked_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # asked twice: what is under way is not waited for
        self.should_exit = True


def _silence_uvicorn() -> None:
    """It logs what clients send, and tracebacks. Requests are counted in /metrics, defects go to the operator."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
