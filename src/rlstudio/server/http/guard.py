"""What every request passes before a route sees it: an ASGI middleware around the whole application.

In this order: the size of its head, the `Host` it asked for, how its body is framed, which site sent it, who calls, and
the body itself, counted while it arrives. So nothing of a caller without a token is read beyond the head or parsed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Protocol

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlstudio.core.errors import message_of, origin_of
from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.problems import RequestRefused, refusal_of
from rlstudio.server.http.roles import Role

LOGIN = "/login"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
BODILESS = ("GET", "HEAD", "OPTIONS")
LOOKING = ("GET", "HEAD")

DOCUMENT_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; font-src 'self';"
    b" connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none';"
    b" frame-ancestors 'none'"
)
"""For pages: scripts and styles are files of this server, and nothing is inline."""

DATA_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Connection(Protocol):
    """The connection that a request came on, as the protocol puts it into `scope["state"]`."""

    def admit(self) -> bool:
        """It showed a token: it no longer counts among the unproven. False where there is no place for it."""
        ...


class Heads:
    """The headers of one request; what may stand once only is refused twice."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs

    def all(self, name: str) -> list[str]:
        key = name.lower().encode()
        return [value.decode("latin-1").strip() for header, value in self._pairs if header == key]

    def one(self, name: str) -> str | None:
        values = self.all(name)
        if len(values) > 1:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{name}: given {len(values)} times", closes=True)
        return values[0] if values else None


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        hosts: Collection[str],
        public: Collection[tuple[str, str]],
        watching: Collection[tuple[str, str]],
        limits: Limits,
        complain: Callable[[str], None],
        observe: Callable[[str, int], None],
    ) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._complain, self._observe = complain, observe
        self._hosts = frozenset(name.lower() for name in hosts)
        self._public = frozenset(public)
        self._watching = frozenset(watching)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")
        answer = _Answer(send)
        try:
            heads = Heads(scope["headers"])
            self._check_head(scope, heads)
            self._check_site(scope, heads)
            caller = self._check_caller(scope, heads)
            scope.setdefault("state", {})["caller"] = caller
            self._leave_own_cookies(scope, heads)
            body = await self._body(
                scope, heads, receive, self._limits.public_body if caller is None else self._limits.body
            )
            await self._app(scope, _replayed(body, receive), answer.send)
        except Exception as error:
            refused = refusal_of(error)
            if refused is not None and not answer.has_begun:
                await self._refusal(scope, refused)(scope, receive, answer.send)
                return
            if answer.has_begun and isinstance(error.__cause__, Exception) and refusal_of(error.__cause__) is not None:
                raise  # what was being sent was removed, or is damaged: the end that is missing says so
            self._complain(_defect(error, scope, number := secrets.token_hex(4)))
            if answer.has_begun:
                raise
            failure = RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error {number}", closes=True)
            await failure.response()(scope, receive, answer.send)
        finally:
            self._observe(getattr(scope.get("route"), "path", "other"), answer.status)

    def _check_head(self, scope: Scope, heads: Heads) -> None:
        limits, pairs = self._limits, scope["headers"]
        if len(pairs) > limits.headers or sum(len(n) + len(v) + 4 for n, v in pairs) > limits.header_bytes:
            raise RequestRefused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"headers: at most {limits.headers}, of {limits.header_bytes} bytes together",
                closes=True,
            )
        target = scope.get("raw_path") or scope["path"].encode()
        if len(target) + len(scope["query_string"]) > limits.target:
            raise RequestRefused(HTTPStatus.REQUEST_URI_TOO_LONG, f"path: at most {limits.target} bytes", closes=True)
        if not target.startswith(b"/"):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "path: must begin with /", closes=True)
        hosts = heads.all("Host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise RequestRefused(HTTPStatus.MISDIRECTED_REQUEST, "Host: not a name of this server", closes=True)
        self._check_framing(scope, heads)

    def _check_framing(self, scope: Scope, heads: Heads) -> None:
        length, coding = heads.one("Content-Length"), heads.one("Transfer-Encoding")
        if length is not None and coding is not None:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "Content-Length: not beside Transfer-Encoding", closes=True)
        if length is not None and not (length.isascii() and length.isdigit()):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "Content-Length: must be a number", closes=True)
        # By its digits: a number of thousands of them is not computed.
        if length is not None and len(length.lstrip("0")) > len(str(self._limits.body)):
            raise _too_large(self._limits.body)
        if length is not None and int(length) > self._limits.body:
            raise _too_large(self._limits.body)
        if scope["method"] in BODILESS and (coding is not None or (length or "0").strip("0")):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"body: {scope['method']} takes none", closes=True)
        if (heads.one("Content-Encoding") or "identity").lower() != "identity":
            raise RequestRefused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: send the body as it is", closes=True
            )
        if "," in (heads.one("Range") or ""):
            raise RequestRefused(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "Range: one at a time", closes=True)

    def _check_site(self, scope: Scope, heads: Heads) -> None:
        """Another site's page may open this one by a link; it may send nothing and load nothing, by any method."""
        origin, host = heads.one("Origin"), str(heads.one("Host"))
        own = {f"{scheme}://{host}".lower() for scheme in (scope["scheme"], "https")}  # a proxy may speak TLS before us
        if origin is not None and origin.lower() not in own:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "Origin: another site may not call this server", closes=True)
        site = heads.one("Sec-Fetch-Site")
        is_opened = heads.one("Sec-Fetch-Mode") == "navigate" and scope["method"] == "GET"
        if site not in (None, "same-origin", "none") and not is_opened:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "Origin: another site may not call this server", closes=True)

    def _check_caller(self, scope: Scope, heads: Heads) -> Caller | None:
        asked = scope["method"], scope["path"]
        if asked in self._public:
            return None
        credentials = heads.one("Authorization"), heads.one("Cookie")
        caller = self._access.caller(*credentials, is_use=asked not in self._watching)
        if caller is None:
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "Authorization: expected `Bearer TOKEN`", closes=True)
        connection: Connection | None = scope.get("state", {}).get("connection")
        if connection is not None and not connection.admit():
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many connections", closes=True, headers={"Retry-After": "1"}
            )
        if scope["method"] not in LOOKING and not caller.may(Role.ACT):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                f"token {caller.name}: has the role read, {scope['method']} needs act",
                closes=True,
            )
        return replace(caller, still_counts=lambda: self._access.caller(*credentials, is_use=False) is not None)

    def _leave_own_cookies(self, scope: Scope, heads: Heads) -> None:
        """What is below parses cookies of every request, and over 16 kB of backslashes for a second (CVE-2024-7592)."""
        values = self._access.cookie_values(heads.one("Cookie"))
        others = [pair for pair in scope["headers"] if pair[0] != b"cookie"]
        own = "; ".join(f"{self._access.cookie}={value}" for value in values)
        scope["headers"] = others + ([(b"cookie", own.encode("latin-1"))] if own else [])

    async def _body(self, scope: Scope, heads: Heads, receive: Receive, most: int) -> bytes:
        if scope["method"] in BODILESS:
            return b""
        if int(heads.one("Content-Length") or 0) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        size, is_more = 0, True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while is_more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise RequestRefused(HTTPStatus.BAD_REQUEST, "body: ended early", closes=True)
                    parts.append(message.get("body", b""))
                    is_more = message.get("more_body", False)
                    size += len(parts[-1])
                    if size > most:
                        raise _too_large(most)
        except TimeoutError:
            raise RequestRefused(HTTPStatus.REQUEST_TIMEOUT, "body: took too long", closes=True) from None
        if size:
            self._check_type(scope, heads)
        return b"".join(parts)

    def _check_type(self, scope: Scope, heads: Heads) -> None:
        wanted = FORM if scope["path"] == LOGIN else JSON
        kind = (heads.one("Content-Type") or "").partition(";")[0].strip().lower()
        if kind != wanted:
            raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: must be {wanted}")

    def _refusal(self, scope: Scope, refused: RequestRefused) -> Response:
        """A person who opened a page without a session is sent to the form that begins one."""
        accepts = Heads(scope["headers"]).all("Accept")
        is_page = scope["method"] == "GET" and any("text/html" in value for value in accepts)
        if refused.status == HTTPStatus.UNAUTHORIZED and is_page and ("GET", LOGIN) in self._public:
            return RedirectResponse(LOGIN, HTTPStatus.SEE_OTHER)
        return refused.response()


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: more than {most} bytes", closes=True)


class _Answer:
    """Adds to each answer what browsers are to keep to, and knows whether one has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    @property
    def has_begun(self) -> bool:
        return self.status != 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": with_policies(list(message.get("headers", ())))}
        await self._send(message)


def with_policies(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower(): value for name, value in headers}
    is_page = given.get(b"content-type", b"").startswith(b"text/html")
    policy = (b"content-security-policy", DOCUMENT_POLICY if is_page else DATA_POLICY)
    added = [policy, *ALWAYS, (b"cache-control", b"no-store")]
    return headers + [(name, value) for name, value in added if name not in given]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What arrived, in one piece; then whatever the connection tells."""
    waiting: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _defect(error: Exception, scope: Scope, number: str) -> str:
    """One line for the operator. The target is not in it: it may hold a secret."""
    route = getattr(scope.get("route"), "path", "no route")
    text = f"internal error {number}: {scope['method']} {route}: {type(error).__name__}: {message_of(error)}"
    place = origin_of(error)
    return text + (f" ({place})" if place else "")
