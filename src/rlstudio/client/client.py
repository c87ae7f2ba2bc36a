"""Client: the calls that a server answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from rlstudio.client.address import ServerAddress
from rlstudio.client.connection import PREFIX, ServerConnection
from rlstudio.client.documents import (
    CallerDocument,
    CatalogDocument,
    GroupCurves,
    HealthDocument,
    Launch,
    OperationDocument,
    PresetDocument,
    QueueDocument,
    RunDocument,
    Validation,
)
from rlstudio.client.download import save
from rlstudio.client.events import StreamEvent, follow
from rlstudio.client.refusals import of_problem
from rlstudio.client.runs import FIRST_POLL, LONGEST_POLL, RunRoutes, segment
from rlstudio.client.service import ModelRoutes, SweepRoutes, TokenRoutes
from rlstudio.client.token import find_token
from rlstudio.core.errors import RLStudioError, UserError

if TYPE_CHECKING:
    import httpx


class ExperimentOptions(TypedDict, total=False):
    """The options of an experiment besides its configuration."""

    preset: str | None  # in its place: one that the server has
    seed: int | None
    name: str | None
    priority: int | None


class Client:
    """A `server` by its address. `token_file`: a file with the token that only its owner may read; by default it is
    looked for (see `token`). `ca_file`: certificates in PEM form that are trusted alone, for a server with its own."""

    def __init__(
        self,
        server: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        address = ServerAddress.parse(server)
        self._connection = ServerConnection(address, find_token(address, token_file), ca_file, transport)
        self.address = str(address)
        self.runs = RunRoutes(self._connection)
        self.sweeps = SweepRoutes(self._connection)
        self.models = ModelRoutes(self._connection)
        self.tokens = TokenRoutes(self._connection)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def understood(self) -> AbstractContextManager[None]:
        """Around what reads answers: `ServerUnreachable` for one that no RLStudio server gives."""
        return self._connection.understood()

    # -- experiments ------------------------------------------------------------------------------------------------

    def launch(
        self,
        config: Mapping[str, object] | str | None = None,
        overrides: Sequence[str] = (),
        *,
        key: str | None = None,
        **options: Unpack[ExperimentOptions],
    ) -> RunDocument:
        """Put one run into the queue. `config`: what is in a file, or its text; or the option `preset`."""
        return self.launch_seeds(1, config, overrides, key=key, **options)[0]

    def launch_seeds(
        self,
        seeds: int,
        config: Mapping[str, object] | str | None = None,
        overrides: Sequence[str] = (),
        *,
        key: str | None = None,
        **options: Unpack[ExperimentOptions],
    ) -> Sequence[RunDocument]:
        """The same with several seeds, counted from the option `seed`; all of them are launched, or none."""
        body = {**_experiment(config, overrides, options), "seeds": seeds}
        return cast(Launch, self._connection.post("/experiments", body, key=key))["runs"]

    def validate(
        self,
        config: Mapping[str, object] | str | None = None,
        overrides: Sequence[str] = (),
        *,
        seeds: int = 1,
        **options: Unpack[ExperimentOptions],
    ) -> Validation:
        """The whole configuration, or what is wrong with it, field by field; nothing is launched."""
        body = {**_experiment(config, overrides, options), "seeds": seeds, "validate_only": True}
        return cast(Validation, self._connection.post("/experiments", body))

    # -- groups -----------------------------------------------------------------------------------------------------

    def compare(self, runs: Sequence[str], metric: str | None = None, *, minimize: bool = False) -> dict[str, Any]:
        """The document of `rlctl compare a b --json`."""
        query = {"runs": ",".join(runs), "metric": metric, "minimize": minimize}
        return cast("dict[str, Any]", self._connection.get("/compare", query))

    def curves(self, runs: Sequence[str], metric: str | None = None, points: int = 500) -> GroupCurves:
        """A curve with its band for each group."""
        query = {"runs": ",".join(runs), "metric": metric, "points": points}
        return cast(GroupCurves, self._connection.get("/curves", query))

    # -- the server -------------------------------------------------------------------------------------------------

    def stream(self, runs: Sequence[str] = (), topics: Sequence[str] = (), last_id: str = "") -> Iterator[StreamEvent]:
        """Changes as they happen, without end. After a lost connection it continues behind the last event."""
        return follow(self._connection, runs, topics, last_id)

    def queue(self) -> QueueDocument:
        return cast(QueueDocument, self._connection.get("/queue"))

    def order_queue(self, ids: Sequence[str]) -> QueueDocument:
        """Choose which runs start first."""
        return cast(QueueDocument, self._connection.post("/queue/order", {"ids": [*ids]}))

    def operation(self, operation_id: str) -> OperationDocument:
        return cast(OperationDocument, self._connection.get(f"/operations/{segment(operation_id)}"))

    def finished(self, operation: OperationDocument, seconds: float | None = None) -> dict[str, Any]:
        """Wait for the result of an operation, with its `download` if it has one; if it failed, its error is raised."""
        operation = self.ended(operation, seconds)
        if operation["state"] == "failed":
            raise of_problem(operation.get("error") or {}, self.address)
        made = {"download": operation["download"]} if "download" in operation else {}
        return {**(operation.get("result") or {}), **made}

    def ended(self, operation: OperationDocument, seconds: float | None = None) -> OperationDocument:
        """Wait for the end of an operation and return it. A promotion that was refused has a `result` too: the numbers
        behind it."""
        until = None if seconds is None else time.monotonic() + seconds
        pause = FIRST_POLL
        while operation["state"] == "running":
            if until is not None and time.monotonic() >= until:
                raise RLStudioError(
                    f"operation {operation['id']} ({operation['kind']}): still runs after {seconds:g} s"
                )
            self._connection.pause(pause)
            pause = min(pause * 1.5, LONGEST_POLL)
            operation = self.operation(operation["id"])
        return operation

    def download(self, path: str, target: Path) -> Path:
        """A file that an answer names by its path on the server (`download`)."""
        return save(self._connection, path.removeprefix(PREFIX), target)

    def catalog(self) -> CatalogDocument:
        return cast(CatalogDocument, self._connection.get("/catalog"))

    def preset(self, name: str) -> PresetDocument:
        return cast(PresetDocument, self._connection.get(f"/presets/{name}"))

    def schema(self, algo: str | None = None) -> dict[str, Any]:
        return cast("dict[str, Any]", self._connection.get("/schema", {"algo": algo}))

    def sweep_schema(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._connection.get("/schema/sweep"))

    def health(self) -> HealthDocument:
        return cast(HealthDocument, self._connection.get("/health"))

    def me(self) -> CallerDocument:
        """Whose token this is, and what it may do."""
        return cast(CallerDocument, self._connection.get("/me"))

    def audit(self) -> Sequence[dict[str, Any]]:
        """Who did what over HTTP."""
        return cast("list[dict[str, Any]]", self._connection.get("/audit")["items"])

    def server_metrics(self) -> str:
        """As Prometheus reads them."""
        return self._connection.text("/metrics")


def _experiment(
    config: Mapping[str, object] | str | None, overrides: Sequence[str], options: ExperimentOptions
) -> dict[str, object]:
    if (config is None) == (options.get("preset") is None):
        raise UserError("launch: give a configuration or the name of a preset, and not both")
    body: dict[str, object] = {field: value for field, value in options.items() if value is not None}
    if config is not None:
        body |= {"yaml": config} if isinstance(config, str) else {"config": dict(config)}
    return {**body, "overrides": [*overrides]}
