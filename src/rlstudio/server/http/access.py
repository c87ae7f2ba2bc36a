"""From the headers of a request to a caller: a bearer token, or the cookie of a browser that signed in.

Sessions live in the memory of the process. A page cannot send a header with an event stream, so it has a cookie, which
scripts cannot read and other sites cannot send.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role
from rlstudio.server.http.tokens import OPERATOR, Token, Tokens, digest

COOKIE = "rlstudio_session"
SESSION_SECONDS = 12 * 3600.0
"""From its last request on."""

ONE_TIME_SECONDS = 24 * 3600.0
MOST_SESSIONS = 256
LONGEST_CREDENTIAL = 256


@dataclass
class _Session:
    caller: Caller
    token: Token | None
    """The named token that it was begun with: when that is revoked or expires, so is the session."""

    used: float


class Access:
    """Who may call this server. Without `tokens` only those of this process count; `is_open`: everybody may, which the
    caller allows on the loopback address alone."""

    def __init__(
        self,
        tokens: Tokens | None = None,
        *,
        is_open: bool = False,
        cookie: str = COOKIE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_open = is_open
        self.cookie = cookie  # browsers keep cookies by host, not by port: two servers need two names
        self._tokens = tokens
        self._clock = clock
        self._own: dict[str, Caller] = {}
        self._one_time: dict[str, float] = {}
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def allow(self, secret: str, caller: Caller) -> None:
        """A token of this process alone."""
        self._own[digest(secret)] = caller

    def one_time_token(self) -> str:
        """For the URL that the terminal shows: it begins one session."""
        secret = secrets.token_urlsafe(32)
        self._one_time[digest(secret)] = self._clock() + ONE_TIME_SECONDS
        return secret

    def caller(self, authorization: str | None, cookies: str | None) -> Caller | None:
        if self.is_open:
            return Caller("anyone", Role.ACT)
        if authorization is not None:
            scheme, _, secret = authorization.partition(" ")
            return self._bearer(secret.strip()) if scheme.lower() == "bearer" else None
        return self._by_session(cookies) if cookies is not None else None

    def begin_session(self, secret: str) -> str | None:
        """The value of a cookie, for a one-time token or any other token; None where it is none."""
        if len(secret) > LONGEST_CREDENTIAL:
            return None
        until = self._one_time.pop(digest(secret), None)
        if until is not None:
            return self._new_session(Caller(OPERATOR, Role.ACT), None) if self._clock() < until else None
        caller = self._bearer(secret)
        if caller is None:
            return None
        return self._new_session(caller, self._tokens.find(secret) if self._tokens is not None else None)

    def end_session(self, cookies: str | None) -> None:
        self._sessions.pop(digest(self._cookie_value(cookies)), None)

    def _bearer(self, secret: str) -> Caller | None:
        # Looked up by its SHA-256, whose bits a caller cannot steer: no comparison tells how much of a guess was right.
        if not secret or len(secret) > LONGEST_CREDENTIAL:
            return None
        own = self._own.get(digest(secret))
        if own is not None:
            return own
        token = self._tokens.find(secret) if self._tokens is not None else None
        return None if token is None else Caller(token.name, token.role)

    def _new_session(self, caller: Caller, token: Token | None) -> str:
        value = secrets.token_urlsafe(32)
        self._sessions[digest(value)] = _Session(caller, token, self._clock())
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return value

    def _by_session(self, cookies: str | None) -> Caller | None:
        key = digest(self._cookie_value(cookies))
        session = self._sessions.get(key)
        if session is None:
            return None
        is_revoked = session.token is not None and (self._tokens is None or not self._tokens.is_active(session.token))
        if is_revoked or self._clock() - session.used > SESSION_SECONDS:
            del self._sessions[key]
            return None
        session.used = self._clock()
        self._sessions.move_to_end(key)
        return session.caller

    def _cookie_value(self, cookies: str | None) -> str:
        try:
            morsel = SimpleCookie(cookies or "").get(self.cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value[:LONGEST_CREDENTIAL]
