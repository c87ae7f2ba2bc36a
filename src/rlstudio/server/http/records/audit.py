"""Who did what over HTTP: a file that only grows, each line bound to the one before it.

    {"seq", "time", "id", "who", "role", "method", "path", "status": null, "previous", "sum"}

A change is written twice with one id: before it is made, and after it with its status and, where the answer has one,
its `location`: the run that a launch made, or that `last` meant. A server that dies in between leaves the first line.
`sum` is the SHA-256 of the line without it, `previous` that of the line before, so a line that was changed, cut out or
moved shows.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from rlstudio.core.errors import StorageError
from rlstudio.server.http.tokens import FOLDER
from rlstudio.storage.folder import Folder, ensure_directory
from rlstudio.storage.jsonl import LineWriter, decode, encode, whole_lines

FILE, LOCK = "audit.jsonl", "audit.lock"
LOCK_SECONDS = 10.0
TAIL_BYTES = 1 << 20
START = "0" * 64
CHAIN = ("previous", "sum")
LONGEST_PATH = 300

Record = dict[str, object]


class AuditLog:
    """Of one state folder. Several processes may write: servers, and the command line."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._place = state_dir / FOLDER
        self._folder = Folder(self._place)
        self._clock = clock
        self._last: tuple[int, int, str] = (0, 0, START)  # size of the file, seq and sum of its last line

    def begin(self, who: str, role: str, method: str, path: str) -> str:
        """Before a change; returns its id."""
        number = secrets.token_hex(8)
        self._append(number, who, role, method, path, None)
        return number

    def end(self, number: str, who: str, role: str, method: str, path: str, status: int, location: str = "") -> None:
        self._append(number, who, role, method, path, status, location)

    def listed(self, limit: int = 200) -> list[Record]:
        """The newest changes, newest first; `status` is None for one whose server died or is still at it."""
        changes: dict[object, Record] = {}
        for record in self._tail():
            known = changes.setdefault(record.get("id"), record)
            if record.get("status") is not None:
                known |= {name: record[name] for name in ("status", "location") if name in record}
        newest = list(changes.values())[::-1][:limit]
        return [{name: value for name, value in change.items() if name not in CHAIN} for change in newest]

    def first_broken(self) -> int | None:
        """The number of the first line that does not follow from the one before it; None where all do."""
        if self._folder_size() == 0:
            return None
        previous = START
        with self._folder.open(FILE) as file:
            for number, line in enumerate(whole_lines(file), 1):
                record = next(decode([line]), None)
                if record is None or record.get("previous") != previous or record.get("sum") != _sum(record):
                    return number
                previous = str(record["sum"])
        return None

    def _append(
        self, number: str, who: str, role: str, method: str, path: str, status: int | None, location: str = ""
    ) -> None:
        with self._locked():
            writer = LineWriter(self._folder, FILE)
            try:
                seq, previous = self._end_of(writer.size)
                record: Record = {
                    "seq": seq + 1,
                    "time": round(self._clock(), 3),
                    "id": number,
                    "who": who,
                    "role": role,
                    "method": method,
                    "path": path[:LONGEST_PATH],
                    "status": status,
                    **({"location": location[:LONGEST_PATH]} if location else {}),
                    "previous": previous,
                }
                record["sum"] = _sum(record)
                writer.append(encode(record))
                self._last = (writer.size, seq + 1, str(record["sum"]))
            finally:
                writer.close()

    def _end_of(self, size: int) -> tuple[int, str]:
        """`seq` and `sum` of the last line, which another process may have written."""
        if size != self._last[0]:
            last: Record = next(reversed(list(self._tail())), {})
            seq = last.get("seq")
            self._last = (size, seq if isinstance(seq, int) else 0, str(last.get("sum", START)))
        return self._last[1:]

    def _tail(self) -> Iterator[Record]:
        size = self._folder_size()
        if size == 0:
            return
        with self._folder.open(FILE) as file:
            if size > TAIL_BYTES:
                file.seek(size - TAIL_BYTES)
                file.readline()
            yield from decode(whole_lines(file))

    def _folder_size(self) -> int:
        return (self._folder.size(FILE) or 0) if self._place.is_dir() else 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        ensure_directory(self._place)
        until = time.monotonic() + LOCK_SECONDS
        while (lock := self._folder.lock(LOCK)) is None:
            if time.monotonic() > until:
                raise StorageError(f"{self._place / LOCK}: held by another process for {LOCK_SECONDS:g} s; try again")
            time.sleep(0.005)
        try:
            yield
        finally:
            os.close(lock)


def _sum(record: Record) -> str:
    plain = {name: value for name, value in record.items() if name != "sum"}
    return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
