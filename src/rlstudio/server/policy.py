"""A policy over HTTP, on the standard library: for a robot's controller or a game server beside it.

    POST /act      {"observations": [[...], ...], "carry": {...}} -> {"actions": [...], "carry": {...}}
    GET /health    {"status": "ok"}, the only route without a token
    GET /spec      spec.json of the bundle
    GET /metrics   counts and latencies for Prometheus

Meant for the loopback address or a private network behind a proxy that speaks TLS. What comes in is bounded in size,
time and number before it is parsed, and every array is checked against the spaces. A page in a browser cannot use it:
no other site is allowed by CORS, and the Host must be one that was named.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from rlstudio.core.contracts import Agent
from rlstudio.delivery.bundle import SPEC, Bundle
from rlstudio.server.http.problems import RequestRefused
from rlstudio.server.metrics import ServingMetrics
from rlstudio.server.requests import BadInput, parse_request

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_Request = socket.socket | tuple[bytes, socket.socket]

MAX_BODY = 1 << 20
DEADLINE = 10.0  # seconds for one request to arrive, and for an idle connection to begin one
MAX_CONNECTIONS = 64
ROUTES = ("/act", "/health", "/metrics", "/spec")


class PolicyServer(ThreadingHTTPServer):
    """Serves one bundle. Threads share the policy, whose graph may be run by many at once."""

    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(
        self,
        bundle: Bundle,
        address: tuple[str, int],
        *,
        token: str | None,
        max_batch: int = 256,
        allowed_hosts: tuple[str, ...] = (),
        deadline: float = DEADLINE,
    ) -> None:
        self.policy: Agent = bundle.policy()
        self.spec = bundle.spec
        self.spec_bytes = bundle.read(SPEC)
        self.space, self.carried = self.policy.spaces.observation, bundle.spec.carry_ports
        self.start = np.asarray(getattr(self.policy.spaces.action, "start", 0) or 0)
        self.token, self.max_batch, self.deadline = token, max_batch, deadline
        self.metrics = ServingMetrics(bundle.spec.name)
        # An agent in NumPy writes into arrays of its own, the graph does not.
        self.turn: contextlib.AbstractContextManager[object] = (
            contextlib.nullcontext() if self.policy.acting == "onnx" else threading.Lock()
        )
        self._open = threading.Semaphore(MAX_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        host, port = self.server_address[:2]
        url_host = f"[{host!s}]" if ":" in str(host) else str(host)
        names = {url_host, *allowed_hosts} | ({"localhost"} if is_loopback(str(host)) else set())
        self.hosts = frozenset(f"{name}:{port}".lower() for name in names) | {name.lower() for name in allowed_hosts}

    def process_request(self, request: _Request, client_address: object) -> None:
        """No more connections at once than there may be threads."""
        if not self._open.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.release()

    def handle_error(self, request: _Request, client_address: object) -> None:
        """Print nothing: a client that goes away is no error, and what a request holds must not reach the log."""

    def act(self, body: bytes) -> tuple[dict[str, object], int]:
        try:
            value = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "body: is not JSON") from error
        try:
            parsed = parse_request(value, self.space, self.carried, self.max_batch)
        except BadInput as error:
            raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        with self.turn:
            acted = self.policy.step(parsed.observations, parsed.carry)
            actions = acted.actions + self.start if self.start.any() else acted.actions
            answer: dict[str, object] = {"actions": actions[0].tolist() if parsed.single else actions.tolist()}
            if self.policy.remembers:
                carry = acted.carry or {}
                answer["carry"] = {part: (rows[0] if parsed.single else rows).tolist() for part, rows in carry.items()}
        return answer, parsed.rows


class _TimedReader(io.RawIOBase):
    """A connection whose requests must each arrive within their time: a byte now and then does not keep it open."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__()
        self._connection, self._seconds = connection, seconds
        self._until: float | None = None

    def restart(self) -> None:
        """The next byte begins a request."""
        self._until = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        left = self._seconds if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if self._until is None:
            self._until = time.monotonic() + self._seconds
        return count


class _Handler(BaseHTTPRequestHandler):
    server: PolicyServer
    protocol_version = "HTTP/1.1"  # connections are kept
    server_version, sys_version = "rlstudio", ""
    disable_nagle_algorithm = True  # an answer is one small write: waiting for more would cost 40 ms

    def setup(self) -> None:
        super().setup()
        self._timed = _TimedReader(self.connection, self.server.deadline)
        self.rfile = io.BufferedReader(self._timed)

    def handle_one_request(self) -> None:
        self._timed.restart()
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, respond: Callable[[str], tuple[str, bytes]]) -> None:
        route = self.path.partition("?")[0]
        known = route if route in ROUTES else "other"
        status, kind = HTTPStatus.OK, "application/json"
        try:
            self._check_caller(route)
            kind, body = respond(route)
        except RequestRefused as refused:
            status, body = refused.status, _json({"error": str(refused)})
            self.close_connection |= refused.closes
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": "internal error"})
            self.close_connection = True
        self.server.metrics.answered(known, int(status))
        self._send(status, kind, body)

    def _check_caller(self, route: str) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:
            raise RequestRefused(HTTPStatus.MISDIRECTED_REQUEST, "Host: not a name of this server", closes=True)
        if self.server.token is None or route == "/health":
            return
        given = self.headers.get("Authorization") or ""
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "Authorization: expected `Bearer TOKEN`", closes=True)

    def _get(self, route: str) -> tuple[str, bytes]:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "body: GET takes none", closes=True)
        if route == "/health":
            return "application/json", _json({"status": "ok"})
        if route == "/spec":
            return "application/json", self.server.spec_bytes
        if route == "/metrics":
            return "text/plain; version=0.0.4; charset=utf-8", self.server.metrics.text().encode()
        raise _unknown(route)

    def _post(self, route: str) -> tuple[str, bytes]:
        begin = time.perf_counter()
        if route != "/act":
            raise _unknown(route)
        if self.headers.get_content_type() != "application/json" or not self.headers.get("Content-Type"):
            raise RequestRefused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json", closes=True
            )
        answer, rows = self.server.act(self._body())
        body = _json(answer)
        self.server.metrics.acted(time.perf_counter() - begin, rows)
        return "application/json", body

    def _body(self) -> bytes:
        """Exactly Content-Length bytes, at most `MAX_BODY`, within the time of one request."""
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            raise RequestRefused(HTTPStatus.LENGTH_REQUIRED, "Content-Length: needed, once", closes=True)
        if not lengths[0].isascii() or not lengths[0].isdigit():
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "Content-Length: must be a number", closes=True)
        left = int(lengths[0])
        if left > MAX_BODY:
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: more than {MAX_BODY} bytes", closes=True)
        parts = []
        try:
            while left:
                part = self.rfile.read1(left)
                if not part:
                    raise ConnectionResetError
                parts.append(part)
                left -= len(part)
        except TimeoutError as error:
            raise RequestRefused(HTTPStatus.REQUEST_TIMEOUT, "body: took too long", closes=True) from error
        return b"".join(parts)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.connection.settimeout(self.server.deadline)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        # Headers and body in one packet.
        self._headers_buffer.append(b"\r\n" + body)  # type: ignore[attr-defined]
        self.flush_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: requests are counted in /metrics."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unknown(route: str) -> RequestRefused:
    allowed = "POST" if route == "/act" else "GET"
    if route in ROUTES:
        return RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"use {allowed} for {route}", closes=True)
    return RequestRefused(HTTPStatus.NOT_FOUND, f"no such route; there are {', '.join(ROUTES)}", closes=True)
