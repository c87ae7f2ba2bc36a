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
        day = self._day_of(number)
        text = None if day is None else self._folder.read(f"{day}/{number}.json")
        try:
            return None if text is None else Reply.model_validate_json(text)
        except ValidationError:  # of a version that wrote something else
            return None

    def keep(self, number: str, reply: Reply) -> None:
        day, today = self._day_of(number), self._today()
        self._folder.replace(
            f"{self._made(today) if day is None else day}/{number}.json", reply.model_dump_json().encode()
        )
        if self._pruned != today:
            self._pruned = today
            self._prune(today)

    def drop(self, number: str) -> None:
        """Of a request that was refused: asked again, it is judged again."""
        day = self._day_of(number)
        if day is not None:
            self._folder.unlink(f"{day}/{number}.json")

    def lock(self, number: str) -> int | None:
        """A descriptor whose owner alone works at this request, until it is closed; None where another server does. The
        lock lies beside the answer, so that it is the same one after midnight."""
        day = self._day_of(number)
        return self._folder.lock(f"{self._made(self._today()) if day is None else day}/{number}.lock")

    def _day_of(self, number: str) -> int | None:
        """The day whose folder has it: any, since the clock may have jumped meanwhile."""
        return next((day for day in self._days() if (self._place / str(day) / f"{number}.json").exists()), None)

    def _days(self) -> list[int]:
        names = self._folder.names() if self._place.is_dir() else []
        return sorted((int(name) for name in names if name.isdigit()), reverse=True)

    def _made(self, day: int) -> int:
        ensure_directory(self._place / str(day))
        return day

    def _today(self) -> int:
        return int(self._clock() // DAY)

    def _prune(self, today: int) -> None:
        """The newest of those that are over stays: after a jump of the clock that is the day on which they came."""
        for day in [day for day in self._days() if day <= today - KEPT_DAYS][1:]:
            self._folder.remove_tree(str(day))
