"""Sessions of browsers: what a cookie stands for, also in a server that was started again.

    .rlstudio/server/sessions/SHA256.json   {"name", "role", "token", "used"}

The file is named by the SHA-256 of the cookie, so that who reads the folder has nobody's session. It is written when
the session begins and when the server ends, never by a request that only looks.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rlstudio.server.http.roles import Role
from rlstudio.server.http.tokens import FOLDER, digest
from rlstudio.storage.folder import Folder, ensure_directory

SESSIONS = "sessions"
SESSION_SECONDS = 12 * 3600.0
"""From its last request on; streams are none, since a page that nobody looks at keeps them open."""

MOST_SESSIONS = 256


class BrowserSession(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    role: Role
    token: str | None
    """SHA-256 of the named token that it was begun with: when that is revoked or expires, so is the session."""

    used: float


class BrowserSessions:
    """Without a state folder they end with the process."""

    def __init__(self, state_dir: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._place = None if state_dir is None else state_dir / FOLDER / SESSIONS
        self._clock = clock
        self._known: dict[str, BrowserSession] = {}
        self._kept: set[str] = set()

    def begin(self, name: str, role: Role, token: str | None = None, *, outlives: bool) -> str:
        """The value of its cookie. `outlives`: also when this process has ended."""
        value = secrets.token_urlsafe(32)
        key = digest(value)
        self._known[key] = BrowserSession(name=name, role=role, token=token, used=self._clock())
        if outlives and self._place is not None:
            self._kept.add(key)
            self._write(key)
        self._prune()
        return value

    def find(self, value: str, *, is_use: bool = True) -> BrowserSession | None:
        """The session of a cookie, unless it is over. `is_use`: its twelve hours begin anew."""
        key = digest(value)
        session = self._known.get(key) or self._read(key)
        if session is None:
            return None
        if self._clock() - session.used > SESSION_SECONDS:
            self.end(value)
            return None
        if is_use:
            session.used = self._clock()
        return session

    def end(self, value: str) -> None:
        self._drop(digest(value))

    def close(self) -> None:
        """The server ends: the next one goes on counting from the last request."""
        for key in self._kept & self._known.keys():
            self._write(key)

    def _read(self, key: str) -> BrowserSession | None:
        if self._place is None or not self._place.is_dir():
            return None
        text = Folder(self._place).read(f"{key}.json")
        try:
            session = None if text is None else BrowserSession.model_validate_json(text)
        except ValidationError:  # of a version that wrote something else
            return None
        if session is not None:
            self._known[key] = session
            self._kept.add(key)
        return session

    def _write(self, key: str) -> None:
        if self._place is not None:
            ensure_directory(self._place)
            Folder(self._place).replace(f"{key}.json", self._known[key].model_dump_json().encode())

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
        self._kept.discard(key)
        if self._place is not None and (self._place / f"{key}.json").exists():
            Folder(self._place).unlink(f"{key}.json")

    def _prune(self) -> None:
        """What is over, and of too many those that were used longest ago."""
        if self._place is not None and self._place.is_dir():
            for name in Folder(self._place).names():
                if name.removesuffix(".json") not in self._known:
                    self._read(name.removesuffix(".json"))
        by_use = sorted(self._known, key=lambda key: self._known[key].used, reverse=True)
        for number, key in enumerate(by_use):
            if number >= MOST_SESSIONS or self._clock() - self._known[key].used > SESSION_SECONDS:
                self._drop(key)
