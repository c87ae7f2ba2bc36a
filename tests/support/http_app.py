"""Requests to an application in this process: no socket, no thread, what a client would get."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from rlstudio.server.http.access import Access
from rlstudio.server.http.app import create_app
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role

HOST = "127.0.0.1:8710"
ACT, READ = "secret-that-acts", "secret-that-reads"


def two_tokens() -> Access:
    """`ACT` of ada and `READ` of rob."""
    access = Access()
    access.allow(ACT, Caller("ada", Role.ACT))
    access.allow(READ, Caller("rob", Role.READ))
    return access


def made(*routers, **options):
    """An application with `two_tokens` and the name `HOST`."""
    return create_app(*routers, **{"title": "test", "access": two_tokens(), "hosts": {HOST}, **options})


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(app, method, target, token=ACT, body=b"", headers=(), host=HOST, state=None) -> Answer:
    """`body`: bytes as they are, anything else as JSON."""
    parts = urlsplit(target)
    given = [("host", host)] if host is not None else []
    if token is not None:
        given.append(("authorization", f"Bearer {token}"))
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
        given.append(("content-type", "application/json"))
    given += [*headers]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8710),
        "state": dict(state or {}),
    }
    asked = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    is_complete = asyncio.Event()

    async def receive():
        if asked:
            return asked.pop()
        await is_complete.wait()  # a client that hangs up earlier gets no streamed body
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            is_complete.set()

    asyncio.run(app(scope, receive, send))
    start = next(message for message in sent if message["type"] == "http.response.start")
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
    )
