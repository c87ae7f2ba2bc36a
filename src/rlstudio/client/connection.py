"""A connection to a server: requests are sent again when they got lost, answers are JSON, refusals are exceptions."""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from rlstudio.client.address import ServerAddress
from rlstudio.client.refusals import ServerUnreachable, refusal
from rlstudio.core.errors import RLStudioError, UserError, message_of
from rlstudio.core.version import __version__

PREFIX = "/api/v1"
ATTEMPTS = 5
PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts: a server that is started anew answers within them."""

LONGEST_PAUSE = 30.0
"""Seconds that a server may ask to wait before the next attempt."""

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 330.0
"""A launch is tried out before it is accepted, which may take five minutes."""

AGAIN = (429, 502, 503, 504)

Query = Mapping[str, str | int | float | bool | Sequence[str] | None]


class _Bearer(httpx.Auth):
    """Set for each request by itself: neither a `.netrc` nor a redirect can make it another one."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._header
        yield request


class ServerConnection:
    """`transport`, `sleep`: for tests."""

    def __init__(
        self,
        address: ServerAddress,
        token: str,
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._sleep = sleep
        self._has_answered = False
        self._http = httpx.Client(
            base_url=f"{address}{PREFIX}",
            auth=_Bearer(token),
            headers={"User-Agent": f"rlstudio/{__version__}", "Accept": "application/json"},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            verify=_trusted(ca_file) if address.is_encrypted else True,
            trust_env=address.is_encrypted,  # no proxy between this machine and itself
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Around what reads answers: one that no RLStudio server gives has values that are missing or misplaced."""
        try:
            yield
        except RLStudioError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if not self._has_answered:
                raise
            raise ServerUnreachable(
                f"server {self.address}: answered what no RLStudio {__version__} does ({type(error).__name__}:"
                f" {message_of(error)}); is it RLStudio, and of this version?"
            ) from error

    def pause(self, seconds: float) -> None:
        self._sleep(seconds)

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._json(self._send("GET", path, query=query))

    def post(
        self, path: str, body: Mapping[str, object] | None = None, *, key: str | None = None, etag: str | None = None
    ) -> Any:
        """`key`: under which it is done once, however often it is sent; by default a new one."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self._json(self._send("POST", path, body=body or {}, headers=headers, etag=etag))

    def patch(self, path: str, body: Mapping[str, object], *, etag: str | None = None) -> Any:
        return self._json(self._send("PATCH", path, body=body, etag=etag))

    def delete(self, path: str, *, etag: str | None = None) -> None:
        self._send("DELETE", path, etag=etag)

    def text(self, path: str, query: Query | None = None) -> str:
        return self._send("GET", path, query=query).text

    @contextmanager
    def stream(
        self, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None, seconds: float = 60.0
    ) -> Iterator[httpx.Response]:
        """An answer that is read as it comes; `seconds`: after which silence is a lost connection."""
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            with self._http.stream("GET", path, params=_params(query), headers=headers, timeout=timeout) as response:
                if response.status_code >= 300:
                    raise refusal(response.status_code, response.read(), str(self.address))
                yield response
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise self._lost(error) from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        etag: str | None = None,
    ) -> httpx.Response:
        given = {**(headers or {}), **({} if etag is None else {"If-Match": f'"{etag}"'})}
        for attempt in range(ATTEMPTS):
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            is_last = attempt == ATTEMPTS - 1
            try:
                response = self._http.request(method, path, params=_params(query), json=body, headers=given)
            except (httpx.TransportError, httpx.DecodingError) as error:
                # A server that never answered is not there; one that has may be about to be started anew.
                is_absent = isinstance(error, httpx.ConnectError) and not self._has_answered
                if is_last or is_absent or _is_refused_for_good(error):
                    raise self._lost(error) from error
            else:
                self._has_answered = True
                if response.status_code in AGAIN and not is_last:
                    pause = _asked_pause(response, pause)
                elif method == "DELETE" and attempt and response.status_code == 404:
                    return response  # it is gone: by the request whose answer was lost
                elif response.status_code >= 300:
                    raise refusal(response.status_code, response.content, str(self.address))
                else:
                    return response
            self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            message = f"server {self.address}: answered no JSON; is it RLStudio, and the right port?"
            raise ServerUnreachable(message) from error

    def _lost(self, error: httpx.RequestError) -> ServerUnreachable:
        reason = " ".join(str(error).split()) or type(error).__name__
        return ServerUnreachable(f"server {self.address}: {reason}; is the server running, and its port forwarded?")


def _params(query: Query | None) -> dict[str, Any]:
    """What is None is left out, a list is the same name several times."""
    values = {name: value for name, value in (query or {}).items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    """The authorities of this machine, or those of a file alone."""
    if ca_file is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{ca_file}: is no file with certificates in PEM form ({error})") from error


def _is_refused_for_good(error: httpx.RequestError) -> bool:
    """A certificate, or a body that cannot be decoded, does not become good by asking again."""
    return (
        isinstance(error, httpx.DecodingError)
        or isinstance(error.__cause__, ssl.SSLError)
        or "CERTIFICATE_VERIFY_FAILED" in str(error)
    )


def _asked_pause(response: httpx.Response, usual: float) -> float:
    try:
        asked = float(response.headers.get("Retry-After", usual))
    except ValueError:
        return usual
    return min(asked, LONGEST_PAUSE) if asked >= 0 else usual  # one that is no number is not either
