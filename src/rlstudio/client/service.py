"""`client.sweeps`, `client.models` and `client.tokens`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from rlstudio.client.connection import ServerConnection
from rlstudio.client.documents import ModelDocument, ModelsDocument, OperationDocument, TokenDocument
from rlstudio.client.download import save
from rlstudio.client.runs import segment

Document = dict[str, Any]


class SweepRoutes:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> Sequence[Document]:
        return cast("list[Document]", self._connection.get("/sweeps")["items"])

    def get(self, name: str) -> Document:
        return cast(Document, self._connection.get(f"/sweeps/{segment(name)}"))

    def best(self, name: str) -> Document:
        """The configuration of the best trial."""
        return cast(Document, self._connection.get(f"/sweeps/{segment(name)}/best"))

    def launch(
        self,
        config: Mapping[str, object] | str,
        *,
        name: str | None = None,
        max_concurrent: int | None = None,
        key: str | None = None,
    ) -> Document:
        """`config`: the text of a file, or what is in it. `name`: instead of its own."""
        body: Document = {"yaml": config} if isinstance(config, str) else {"config": dict(config)}
        more = {"name": name, "max_concurrent": max_concurrent}
        body |= {field: value for field, value in more.items() if value is not None}
        return cast(Document, self._connection.post("/sweeps", body, key=key))

    def stop(self, name: str, *, key: str | None = None) -> Document:
        return cast(Document, self._connection.post(f"/sweeps/{segment(name)}/stop", key=key))

    def resume(self, name: str, *, key: str | None = None) -> Document:
        return cast(Document, self._connection.post(f"/sweeps/{segment(name)}/resume", key=key))

    def delete(self, name: str) -> None:
        self._connection.delete(f"/sweeps/{segment(name)}")


class ModelRoutes:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> ModelsDocument:
        return cast(ModelsDocument, self._connection.get("/models"))

    def get(self, name: str) -> ModelDocument:
        return cast(ModelDocument, self._connection.get(f"/models/{segment(name)}"))

    def version(self, name: str, number: int) -> Document:
        return cast(Document, self._connection.get(f"/models/{segment(name)}/versions/{number}"))

    def audit(self, name: str) -> Sequence[Document]:
        """Every decision about a model, oldest first."""
        return cast("list[Document]", self._connection.get(f"/models/{segment(name)}/audit")["items"])

    def download_bundle(self, name: str, number: int, target: Path) -> Path:
        """As one tar file."""
        return save(self._connection, f"/models/{segment(name)}/versions/{number}/bundle", target)

    def promote(
        self,
        name: str,
        what: str,
        *,
        to: str = "production",
        checkpoint: str | int | None = None,
        if_current: int | None = None,
        force: str | None = None,
        settings: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> OperationDocument:
        """Start a promotion: a run is exported and judged first. `client.finished(operation)` waits for the result."""
        given = {
            "what": what,
            "to": to,
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "if_current": if_current,
            "force": force,
            "settings": None if settings is None else dict(settings),
        }
        body = {field: value for field, value in given.items() if value is not None}
        return cast(OperationDocument, self._connection.post(f"/models/{segment(name)}/promote", body, key=key))

    def rollback(
        self, name: str, reason: str = "", *, if_current: int | None = None, key: str | None = None
    ) -> Document:
        body: Document = {"reason": reason} if if_current is None else {"reason": reason, "if_current": if_current}
        return cast(Document, self._connection.post(f"/models/{segment(name)}/rollback", body, key=key))


class TokenRoutes:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> Sequence[TokenDocument]:
        return cast("list[TokenDocument]", self._connection.get("/tokens")["items"])

    def add(self, name: str, role: Literal["read", "act"], expires_days: float | None = None) -> TokenDocument:
        """Create a token; the answer has its secret, which is not shown again."""
        body: Document = {"name": name, "role": role}
        if expires_days is not None:
            body["expires_days"] = expires_days
        return cast(TokenDocument, self._connection.post("/tokens", body))

    def revoke(self, name: str) -> None:
        self._connection.delete(f"/tokens/{segment(name)}")
