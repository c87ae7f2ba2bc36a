"""HTTP/1.1 on one connection, with deadlines: uvicorn's protocol over h11, which has none while a request arrives.

    waiting for a head    `seconds` from the first byte, or from the connection on; answered 408
    waiting for a body    `seconds` from its head, in the guard, which answers 408; closed a second later
    between requests      `idle_seconds`
    taking an answer      `seconds` whenever the client lets its buffers fill up

A refusal may come while the client still sends. Closing then would make its system throw the answer away, so what
arrives is read and dropped for a moment first.
"""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rlstudio.server.http.guard import with_policies
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.problems import MEDIA_TYPE, RequestRefused
from rlstudio.server.http.wire.connections import Connections

LINGER_SECONDS = 0.5
LINGER_BYTES = 4 << 20
ANSWER_SECONDS = 1.0
"""For the guard to answer, once a body took too long."""


class GuardedProtocol(H11Protocol):
    limits: Limits
    places: Connections

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "connection": self}, _loop)
        self._descriptor = -1
        self._waits_for: tuple[str, object] = ("", None)
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    # -- what the guard asks for -------------------------------------------------------------------------------------

    def admit(self) -> bool:
        return self.places.admit(self._descriptor)

    # -- what the loop calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()
        self.places.speaking(self._descriptor, self)
        self._lingering = LingeringTransport(transport, self.loop, self.limits.seconds)
        self.transport = cast("asyncio.Transport", self._lingering)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._lingering.is_closing():
            self._lingering.drop_data(len(data))
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._write_deadline):
            if timer is not None:
                timer.cancel()
        self._deadline = None
        self._lingering.ended()
        self.places.closed(self._descriptor, self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self.limits.seconds, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()

    # -- what uvicorn calls ------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # the time between requests is among our deadlines
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """For what h11 refuses, within the handling of its error."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else HTTPStatus.BAD_REQUEST
        self._refuse(RequestRefused(status, f"request: {str(error or msg)[:200]}", closes=True))

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def drop(self) -> None:
        self._lingering.abort()

    def _watch(self) -> None:
        """Begin the deadline of what is waited for now, unless it runs already: a byte now and then is no new start."""
        waits_for = (self._stage(), self.cycle)
        if waits_for == self._waits_for:
            return
        self._waits_for = waits_for
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        seconds = {
            "head": self.limits.seconds,
            "body": self.limits.seconds,
            "request": self.limits.idle_seconds,
        }.get(waits_for[0])
        if seconds is not None and not self._lingering.is_closing():
            self._deadline = self.loop.call_later(seconds, self._too_late)

    def _stage(self) -> str:
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is not h11.IDLE:
            return "answer"
        has_begun = bool(self.conn.trailing_data[0])
        return "head" if has_begun or self.cycle is None else "request"

    def _too_late(self) -> None:
        stage = self._stage()
        if stage == "body":
            # Counted from here, not from the head: after a pause of the whole process all that is overdue comes at
            # once, and the guard's answer is to come before the end.
            self._deadline = self.loop.call_later(ANSWER_SECONDS, self.drop)
        elif stage == "head" and self.conn.trailing_data[0]:
            self._refuse(RequestRefused(HTTPStatus.REQUEST_TIMEOUT, "headers: took too long", closes=True))
        else:
            self.drop()

    def _refuse(self, refused: RequestRefused) -> None:
        """Where there is no application to answer: the request never became one."""
        body = json.dumps(refused.document()).encode()
        headers = with_policies([
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ])  # fmt: skip
        status = int(refused.status)
        answer = h11.Response(status_code=status, headers=headers, reason=refused.status.phrase.encode())
        try:
            parts = [self.conn.send(event) for event in (answer, h11.Data(data=body), h11.EndOfMessage())]
        except h11.LocalProtocolError:  # an answer has begun already
            self.drop()
            return
        self.transport.write(b"".join(part for part in parts if part))
        self.transport.close()


class LingeringTransport:
    """The transport of a connection, which a close leaves open for a moment to what still arrives, and for a bounded
    time to what the client has not taken yet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport, self._loop, self._seconds = transport, loop, seconds
        self._is_closing = False
        self._timers: list[asyncio.TimerHandle] = []
        self._dropped = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        self._is_closing = True
        self._timers.append(self._loop.call_later(self._seconds, self.abort))
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        self._timers.append(self._loop.call_later(LINGER_SECONDS, self._transport.close))

    def drop_data(self, size: int) -> None:
        self._dropped += size
        if self._dropped > LINGER_BYTES:
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def ended(self) -> None:
        self._is_closing = True
        for timer in self._timers:
            timer.cancel()
