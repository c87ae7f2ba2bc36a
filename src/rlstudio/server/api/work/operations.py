"""Operations: promote and export take seconds to minutes, so each has a process and a file of its own.

    .rlstudio/server/operations/ID.json   {id, kind, state, asked, result, error, download}
    .rlstudio/server/operations/ID.lock   held by its process as long as that lives
    .rlstudio/server/operations/ID.tar    what an export made

The process goes on when the server ends, and its answer is there when the server is back. One whose process died shows
as failed; the same request with the same Idempotency-Key then begins it again.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.host.portable import native_environment
from rlstudio.core.timestamps import timestamp
from rlstudio.server.api.answers import Document, encoded
from rlstudio.server.http.problems import RequestRefused
from rlstudio.storage.folder import Folder, ensure_directory

PROGRAM = "rlstudio.server.api.work.operation"
FOLDER = "server/operations"
LOG = "server-operations.log"
MOST_KEPT = 100
MOST_AT_ONCE = 2
DIED = "its process ended without an answer; ask again, and see server-operations.log beside the store"


def is_operation(text: str) -> bool:
    return len(text) == 24 and all(digit in "0123456789abcdef" for digit in text)


class Operations:
    def __init__(self, workspace: Workspace, imports: Sequence[str] = ()) -> None:
        self._workspace = workspace
        self._imports = tuple(imports)
        self._path = workspace.state_dir / FOLDER
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def folder(self) -> Folder:
        return Folder(self._path)

    def begin(self, kind: str, arguments: Mapping[str, object], key: str) -> Document:
        """A new operation; with a key that was used before, that one, unless its process died."""
        operation = sha256(key.encode()).hexdigest()[:24] if key else secrets.token_hex(12)
        ensure_directory(self._path.parent)
        ensure_directory(self._path)
        known = self.read(operation)
        if known is not None and (known["state"] != "failed" or known["error"]["detail"] != DIED):
            return known
        self._make_room()
        lock = self.folder.lock(f"{operation}.lock")
        if lock is None:  # the same request, at the same moment
            raise RequestRefused(HTTPStatus.CONFLICT, f"operation {operation}: is being begun", headers=_SOON)
        try:
            asked = {"kind": kind, "arguments": dict(arguments), "imports": list(self._imports)}
            begun = {"id": operation, "kind": kind, "state": "running", "created_at": timestamp(), "asked": asked}
            self.folder.replace(f"{operation}.json", encoded(begun))
            self._start(operation, lock)
        finally:
            os.close(lock)  # its process holds it from here on
        return self.read(operation) or begun

    def read(self, operation: str) -> Document | None:
        """As it stands; None where there is none. Looking changes nothing."""
        if not is_operation(operation) or not self._path.is_dir():
            return None
        data = self.folder.read(f"{operation}.json")
        if data is None:
            return None
        document: Document = json.loads(data)
        if document["state"] == "running" and not self._lives(operation):
            data = self.folder.read(f"{operation}.json") or data  # it may have ended between the two looks
            document = json.loads(data)
            if document["state"] == "running":
                document |= {"state": "failed", "error": problem(HTTPStatus.INTERNAL_SERVER_ERROR, DIED)}
        answered = {name: document.get(name) for name in ("id", "kind", "state", "created_at", "result", "error")}
        if self.folder.kind(f"{operation}.tar") == "file" and document["state"] == "done":
            answered["download"] = f"/api/v1/operations/{operation}/download"
        return answered

    def _lives(self, operation: str) -> bool:
        if self.folder.kind(f"{operation}.lock") is None:
            return False
        with self.folder.open(f"{operation}.lock") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _start(self, operation: str, lock: int) -> None:
        self._children = [child for child in self._children if child.poll() is None]
        if len(self._children) >= MOST_AT_ONCE:
            self.folder.unlink(f"{operation}.json")
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{len(self._children)} operations are running; ask again when one is done",
                headers=_SOON,
            )
        log = Folder(self._workspace.state_dir).output(LOG)
        url = self._workspace.url
        variables = {} if url.startswith("sqlite:") else {DATABASE_VARIABLE: url}
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM, str(self._workspace.runs_dir), operation],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
                env={**native_environment(os.environ), **variables},
            )
        finally:
            os.close(log)
        self._children.append(child)

    def _make_room(self) -> None:
        names = [name for name in self.folder.names() if name.endswith(".json")]
        oldest = sorted(names, key=lambda name: self.folder.path(name).stat().st_mtime)
        for name in oldest[: max(0, len(names) - MOST_KEPT)]:
            operation = name.removesuffix(".json")
            if not self._lives(operation):
                for suffix in (".json", ".lock", ".tar"):
                    if self.folder.kind(operation + suffix) is not None:
                        self.folder.unlink(operation + suffix)


_SOON = {"Retry-After": "2"}


def problem(status: int, detail: str, problems: Sequence[object] = (), error: str = "") -> dict[str, Any]:
    """What failed, as the answer to a request would say it."""
    return RequestRefused(status, detail, list(problems), error=error).document()  # type: ignore[arg-type]
