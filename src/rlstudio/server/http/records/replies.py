"""Answers that a client may ask for again: the same `Idempotency-Key` gets the same answer, also from another process.

    .rlstudio/server/answers/DAY/ID.json    {"request": sha256 of the body, "decided_on": what the route saw before it
                                             acted, "answer": {"status", "headers", "body"}}

`ID` is the SHA-256 of who asked, for which path, with which key. The file is there before the route runs; one without
an answer is of a server that died over it, and the route runs again with the same `Caller.key`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rlstudio.server.http.tokens import DAY, FOLDER
from rlstudio.storage.folder import Folder, ensure_directory

ANSWERS = "answers"
KEPT_DAYS = 2
"""An answer is kept for one day at least."""

LARGEST = 256 * 1024


class KeptAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: int
    headers: list[tuple[str, str]]
    body: str


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    request: str
    decided_on: str | None = None
    answer: KeptAnswer | None = None


def reply_id(who: str, method: str, path: str, key: str) -> str:
    return sha256("\n".join((who, method, path, key)).encode()).hexdigest()[:40]


class Replies:
    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._place = state_dir / FOLDER / ANSWERS
        self._folder = Folder(self._place)
        self._clock = clock
        self._pruned = -1

    def find(self, number: str) -> Reply | None:
        for day in range(self._today(), self._today() - KEPT_DAYS, -1):
            if (self._place / str(day)).is_dir() and (text := self._folder.read(f"{day}/{number}.json")) is not None:
                try:
                    return Reply.model_validate_json(text)
                except ValidationError:  # of a version that wrote something else
                    return None
        return None

    def keep(self, number: str, reply: Reply) -> None:
        today = self._today()
        ensure_directory(self._place / str(today))
        self._folder.replace(f"{today}/{number}.json", reply.model_dump_json().encode())
        if self._pruned != today:
            self._pruned = today
            self._prune(today)

    def drop(self, number: str) -> None:
        """Of a request that was refused: asked again, it is judged again."""
        for day in range(self._today(), self._today() - KEPT_DAYS, -1):
            if (self._place / str(day) / f"{number}.json").exists():
                self._folder.unlink(f"{day}/{number}.json")

    def _today(self) -> int:
        return int(self._clock() // DAY)

    def _prune(self, today: int) -> None:
        for name in self._folder.names():
            if name.isdigit() and int(name) <= today - KEPT_DAYS:
                self._folder.remove_tree(name)
