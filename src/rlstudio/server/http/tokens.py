"""Named tokens: who holds one may call. A file keeps names, roles and hashes; the secrets themselves are nowhere.

    .rlstudio/server/tokens.json   {"tokens": [{"name", "role", "sha256", "created", "expires", "revoked"}]}

A secret has 256 random bits, so one round of SHA-256 hides it as well as many. A running server reads the file again
when it has changed: a token that was revoked is refused at the next request.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rlstudio.core.errors import Conflict, StorageError, UnknownName, UserError, suggest
from rlstudio.server.http.roles import Role
from rlstudio.storage.folder import Folder, ensure_directory

FOLDER, FILE, LOCK = "server", "tokens.json", "tokens.lock"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
OPERATOR, FROM_FILE, COMMAND_LINE = OWN_NAMES = ("operator", "token-file", "rlctl")
"""Who calls without a named token: the browser that the terminal signed in, who has the file of `--token-file`, and
changes that were made beside the server. No token is called so: the audit log says who did what."""

PREFIX = "rls_"
DAY = 86400.0
MOST_DAYS = 3660.0
LOCK_SECONDS = 10.0


class Token(BaseModel):
    """One token, without its secret. Times are epoch seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: Role
    sha256: str
    created: float
    expires: float | None = None
    revoked: float | None = None

    def state(self, now: float) -> str:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "active"

    def document(self, now: float) -> dict[str, object]:
        """For people and programs: all but the hash."""
        return {**self.model_dump(mode="json", exclude={"sha256"}), "state": self.state(now)}


class _TokenFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[Token] = []


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


class Tokens:
    """The named tokens of one state folder."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._place = state_dir / FOLDER
        self._folder = Folder(self._place)
        self._clock = clock
        self._stamp: tuple[int, ...] | None = None
        self._known: list[Token] = []

    def find(self, secret: str) -> Token | None:
        """The active token with this secret."""
        given = digest(secret)
        match = None
        for token in self._current():  # all of them, whichever fits: the time tells nothing
            if hmac.compare_digest(token.sha256, given):
                match = token
        return match if match is not None and match.state(self._clock()) == "active" else None

    def is_active(self, sha256: str) -> bool:
        """Whether a token that was found earlier may still call."""
        return any(token.sha256 == sha256 and token.state(self._clock()) == "active" for token in self._current())

    def listed(self) -> list[Token]:
        """Oldest first, also those that are revoked or expired."""
        return list(self._current())

    def add(self, name: str, role: Role, days: float | None = None) -> tuple[Token, str]:
        """A new token and its secret, which is shown this once."""
        if not NAME.fullmatch(name):
            raise UserError(
                f"name: {name[:80]!r} cannot be one; use up to 64 letters, digits, `.`, `_` and `-`, with a letter or"
                " digit first"
            )
        if name in OWN_NAMES:
            raise UserError(f"name: {name} is what the server calls a caller without a named token; choose another")
        if days is not None and not 0 < days <= MOST_DAYS:
            raise UserError(f"expires_days: must be more than 0 and at most {MOST_DAYS:g}, got {days:g}")
        secret, now = new_secret(), self._clock()
        token = Token(
            name=name,
            role=role,
            sha256=digest(secret),
            created=now,
            expires=None if days is None else now + days * DAY,
        )
        with self._changing() as tokens:
            if any(other.name == name and other.state(now) == "active" for other in tokens):
                raise Conflict(f"name: a token {name} is active already; revoke it, or choose another name")
            tokens.append(token)
        return token, secret

    def revoke(self, name: str) -> Token:
        now = self._clock()
        with self._changing() as tokens:
            for place, token in enumerate(tokens):
                if token.name == name and token.state(now) == "active":
                    tokens[place] = token.model_copy(update={"revoked": now})
                    return tokens[place]
            active = [token.name for token in tokens if token.state(now) == "active"]
            raise UnknownName(f"name: no active token {name[:80]!r}{suggest(name, active)}")

    def _current(self) -> list[Token]:
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._known, self._stamp = self._read(), stamp
        return self._known

    def _read_stamp(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._place / FILE, follow_symlinks=False)
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def _read(self) -> list[Token]:
        try:
            text = self._folder.read(FILE) if self._place.is_dir() else None
            return [] if text is None else _TokenFile.model_validate_json(text).tokens
        except ValidationError as error:
            raise StorageError(
                f"{self._place / FILE}: is not a list of tokens; remove it, and add the tokens again"
            ) from error

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens as they are now, for changing; written when the body ends well."""
        ensure_directory(self._place)
        until = time.monotonic() + LOCK_SECONDS
        while (lock := self._folder.lock(LOCK)) is None:
            if time.monotonic() > until:
                raise StorageError(f"{self._place / LOCK}: held by another process for {LOCK_SECONDS:g} s; try again")
            time.sleep(0.02)
        try:
            tokens = self._read()
            yield tokens
            self._folder.replace(FILE, _TokenFile(tokens=tokens).model_dump_json(indent=1).encode())
        finally:
            os.close(lock)
