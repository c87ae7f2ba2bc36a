"""What surrounds each change: its lines in the audit log, and the answer that is kept for its Idempotency-Key.

Inside the guard, so the caller is known and the body is here. Looking (GET, HEAD) passes through.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlstudio.server.http.callers import Caller
from rlstudio.server.http.problems import RequestRefused
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.records.replies import LARGEST, KeptAnswer, Replies, Reply, reply_id

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
LONGEST_KEY = 128
LOCK_POLL_SECONDS = 0.05
"""While the same request is worked at, by this server or by another one of the same folder."""

REPLAYED = (b"idempotency-replayed", b"true")
KEEPS = "keeps_answer"
"""`request.state.keeps_answer = False` of a route whose answer holds a secret: that is written nowhere."""


class ChangeRecorder:
    def __init__(self, app: ASGIApp, *, audit: AuditLog, replies: Replies) -> None:
        self._app, self._audit, self._replies = app, audit, replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller | None = scope.get("state", {}).get("caller") if scope["type"] == "http" else None
        if caller is None or scope["method"] not in CHANGING:
            await self._app(scope, receive, send)
            return
        key = _key_of(scope) if scope["method"] == "POST" else None
        if key is None:
            await self._audited(caller, scope, receive, send)
        else:
            await self._once(caller, key, scope, receive, send)

    async def _audited(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        what = (caller.name, str(caller.role), scope["method"], scope["path"])
        number = await run_in_threadpool(self._audit.begin, *what)
        status, location = int(HTTPStatus.INTERNAL_SERVER_ERROR), ""

        async def noting(message: Message) -> None:
            nonlocal status, location
            if message["type"] == "http.response.start":
                status = message["status"]
                location = dict(message.get("headers", ())).get(b"location", b"").decode("latin-1")
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            await run_in_threadpool(self._audit.end, number, *what, status, location)

    @asynccontextmanager
    async def _alone(self, number: str) -> AsyncIterator[None]:
        """Nobody else works at this request meanwhile, in this process or another."""
        while (lock := self._replies.lock(number)) is None:  # in no thread: one that is cancelled would keep it
            await asyncio.sleep(LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            os.close(lock)

    async def _once(self, caller: Caller, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        number = reply_id(caller.name, scope["method"], scope["path"], key)
        async with self._alone(number):
            message = await receive()
            reply = Reply(request=sha256(message.get("body", b"")).hexdigest())
            known = await run_in_threadpool(self._replies.find, number)
            if known is not None and known.request != reply.request:
                raise RequestRefused(
                    HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key: it came with another body before; use a new one"
                )
            if known is not None and known.answer is not None:
                await _replay(known.answer, send)
                return
            if known is None:
                await run_in_threadpool(self._replies.keep, number, reply)
            reply = known or reply

            def remember(fact: str) -> str:
                nonlocal reply
                if reply.decided_on is None:
                    reply = reply.model_copy(update={"decided_on": fact})
                    self._replies.keep(number, reply)
                return reply.decided_on or fact

            scope["state"]["caller"] = caller = replace(caller, key=f"http-{number}", remember=remember)
            answer = _Buffered()
            try:
                await self._audited(caller, scope, _before(message, receive), answer.send)
            except BaseException:
                await run_in_threadpool(self._replies.drop, number)
                raise
            if answer.is_kept and scope["state"].get(KEEPS, True):
                await run_in_threadpool(self._replies.keep, number, reply.model_copy(update={"answer": answer.kept()}))
            else:
                await run_in_threadpool(self._replies.drop, number)
            for part in answer.messages:
                await send(part)


class _Buffered:
    """An answer that is complete before its first byte leaves."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def _body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def is_kept(self) -> bool:
        """What was done is not done again; what was refused may be possible by then."""
        return bool(self.messages) and self.messages[0]["status"] < 400 and len(self._body) <= LARGEST

    def kept(self) -> KeptAnswer:
        start = self.messages[0]
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start.get("headers", ())]
        return KeptAnswer(status=start["status"], headers=headers, body=self._body.decode())


async def _replay(answer: KeptAnswer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, REPLAYED]})
    await send({"type": "http.response.body", "body": answer.body.encode()})


def _before(message: Message, receive: Receive) -> Receive:
    waiting: list[Any] = [message]

    async def first() -> Message:
        return waiting.pop() if waiting else await receive()

    return first


def _key_of(scope: Scope) -> str | None:
    values: list[str] = [value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= LONGEST_KEY or not values[0].isprintable():
        raise RequestRefused(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"Idempotency-Key: one, of 1 to {LONGEST_KEY} printable characters"
        )
    return values[0]
