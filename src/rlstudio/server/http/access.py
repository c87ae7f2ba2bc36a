"""From the headers of a request to a caller: a bearer token, or the cookie of a browser that signed in.

A page cannot send a header with an event stream, so it has a cookie, which scripts cannot read and other sites cannot
send.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role
from rlstudio.server.http.sessions import BrowserSessions
from rlstudio.server.http.tokens import OPERATOR, Tokens, digest

COOKIE = "rlstudio_session"
ONE_TIME_SECONDS = 24 * 3600.0
LONGEST_CREDENTIAL = 256
MOST_COOKIES = 16
"""Of our name in one request, that are looked at."""


class Access:
    """Who may call this server. Without `tokens` only those of this process count; `is_open`: everybody may, which the
    caller allows on the loopback address alone."""

    def __init__(
        self,
        tokens: Tokens | None = None,
        *,
        is_open: bool = False,
        cookie: str = COOKIE,
        sessions: BrowserSessions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_open = is_open
        self.cookie = cookie  # browsers keep cookies by host, not by port: two servers need two names
        self._tokens = tokens
        self._clock = clock
        self._own: dict[str, Caller] = {}
        self._one_time: dict[str, float] = {}
        self.sessions = sessions or BrowserSessions(clock=clock)

    def allow(self, secret: str, caller: Caller) -> None:
        """A token of this process alone."""
        self._own[digest(secret)] = caller

    def one_time_token(self) -> str:
        """For the URL that the terminal shows: it begins one session."""
        secret = secrets.token_urlsafe(32)
        self._one_time[digest(secret)] = self._clock() + ONE_TIME_SECONDS
        return secret

    def caller(self, authorization: str | None, cookies: str | None, *, is_use: bool = True) -> Caller | None:
        """Who sends these headers. `is_use`: this keeps a session alive."""
        if self.is_open:
            return Caller("anyone", Role.ACT)
        if authorization is not None:
            scheme, _, secret = authorization.partition(" ")
            return self._bearer(secret.strip()) if scheme.lower() == "bearer" else None
        return self._by_session(cookies, is_use) if cookies is not None else None

    def begin_once(self, secret: str) -> str | None:
        """The value of a cookie, for a one-time token; None where it is none. No other token counts in an address:
        it would stay in the history of the browser, and a link of somebody who has one would sign others in as him."""
        until = self._one_time.pop(digest(secret), None) if len(secret) <= LONGEST_CREDENTIAL else None
        return self.sessions.begin(OPERATOR, Role.ACT, outlives=True) if until and self._clock() < until else None

    def begin_session(self, secret: str) -> str | None:
        """The value of a cookie, for any token; None where it is none."""
        begun = self.begin_once(secret)
        if begun is not None:
            return begun
        caller = self._bearer(secret)
        if caller is None:
            return None
        token = self._tokens.find(secret) if self._tokens is not None else None
        # A token of this process alone ends with it, and so do its sessions.
        return self.sessions.begin(
            caller.name, caller.role, None if token is None else token.sha256, outlives=token is not None
        )

    def end_session(self, cookies: str | None) -> None:
        for value in self.cookie_values(cookies):
            self.sessions.end(value)

    def _bearer(self, secret: str) -> Caller | None:
        # Looked up by its SHA-256, whose bits a caller cannot steer: no comparison tells how much of a guess was right.
        if not secret or len(secret) > LONGEST_CREDENTIAL:
            return None
        own = self._own.get(digest(secret))
        if own is not None:
            return own
        token = self._tokens.find(secret) if self._tokens is not None else None
        return None if token is None else Caller(token.name, token.role)

    def _by_session(self, cookies: str, is_use: bool) -> Caller | None:
        callers = (self._of_session(value, is_use) for value in self.cookie_values(cookies))
        return next(filter(None, callers), None)

    def _of_session(self, value: str, is_use: bool) -> Caller | None:
        session = self.sessions.find(value, is_use=is_use)
        if session is None:
            return None
        if session.token is not None and (self._tokens is None or not self._tokens.is_active(session.token)):
            self.sessions.end(value)
            return None
        return Caller(session.name, session.role)

    def cookie_values(self, cookies: str | None) -> list[str]:
        """Of the cookies of this server. Others of this host name leave theirs beside them, also by our name and then
        perhaps before ours; and http.cookies gives up all of them over one that it cannot read."""
        given = (part.strip().partition("=") for part in (cookies or "").split(";"))
        values = [value[:LONGEST_CREDENTIAL] for name, _, value in given if name == self.cookie and value]
        return values[:MOST_COOKIES]
