"""`client.runs`: list, show, steer, label and remove runs, and read what they wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast
from urllib.parse import quote

from rlstudio.client.connection import ServerConnection
from rlstudio.client.documents import (
    ArtifactDocument,
    CheckpointDocument,
    ConfigDocument,
    CurvesSince,
    EventsPage,
    LogPiece,
    MetricsDocument,
    OperationDocument,
    RunDocument,
    RunsPage,
    WholeRunDocument,
)
from rlstudio.client.download import save
from rlstudio.core.run_state import OWNED, RunState

PAGE = 500
GOING = OWNED | {RunState.QUEUED}
FIRST_POLL, LONGEST_POLL = 0.1, 2.0
"""Seconds between two looks at a run that is waited for: soon for a short one, rarely for a long one."""


def segment(word: str) -> str:
    """One part of a path."""
    return quote(word, safe="")


class RunFilters(TypedDict, total=False):
    """Which runs, and in which order."""

    states: Sequence[str]
    envs: Sequence[str]
    algos: Sequence[str]
    tags: Sequence[str]
    names: Sequence[str]
    text: str  # in the id, name, algorithm, environment, a tag or the note
    sort: str  # a field of a run; `-` before it: largest first


class RunRoutes:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def page(self, *, limit: int = 100, cursor: str = "", spark: int = 0, **filters: Unpack[RunFilters]) -> RunsPage:
        """`cursor`: the `next_cursor` of the page before; `spark`: points of a small curve of each run's return."""
        query = {
            "state": filters.get("states", ()),
            "env": filters.get("envs", ()),
            "algo": filters.get("algos", ()),
            "tag": filters.get("tags", ()),
            "name": filters.get("names", ()),
            "q": filters.get("text") or None,
            "sort": filters.get("sort", "-id"),
            "limit": limit,
            "cursor": cursor or None,
            "spark": spark or None,
        }
        return cast(RunsPage, self._connection.get("/runs", query))

    def list(self, limit: int | None = None, **filters: Unpack[RunFilters]) -> Iterator[RunDocument]:
        """All that pass the filters of `page`, over as many pages as there are; at most `limit`."""
        left, cursor = limit, ""
        while left is None or left > 0:
            page = self.page(limit=PAGE if left is None else min(PAGE, left), cursor=cursor, **filters)
            yield from page["items"]
            cursor, left = page["next_cursor"] or "", None if left is None else left - len(page["items"])
            if not cursor:
                return

    def get(self, ref: str) -> WholeRunDocument:
        """By id, handle or unique name."""
        return cast(WholeRunDocument, self._connection.get(self._path(ref)))

    def change(
        self,
        ref: str,
        *,
        tags: Sequence[str] | None = None,
        note: str | None = None,
        priority: int | None = None,
        etag: str | None = None,
    ) -> RunDocument:
        given = {"tags": None if tags is None else [*tags], "note": note, "priority": priority}
        body = {name: value for name, value in given.items() if value is not None}
        return cast(RunDocument, self._connection.patch(self._path(ref), body, etag=etag))

    def delete(self, ref: str, *, etag: str | None = None) -> None:
        self._connection.delete(self._path(ref), etag=etag)

    def stop(self, ref: str, *, key: str | None = None, etag: str | None = None) -> RunDocument:
        """End it at its next safe point; it may still run when this returns (see `wait`)."""
        return self._act(ref, "stop", {}, key, etag)

    def cancel(self, ref: str, *, key: str | None = None, etag: str | None = None) -> RunDocument:
        return self._act(ref, "cancel", {}, key, etag)

    def pause(self, ref: str, *, key: str | None = None, etag: str | None = None) -> RunDocument:
        return self._act(ref, "pause", {}, key, etag)

    def resume(
        self, ref: str, overrides: Sequence[str] = (), *, key: str | None = None, etag: str | None = None
    ) -> RunDocument:
        return self._act(ref, "resume", {"overrides": [*overrides]}, key, etag)

    def fork(
        self,
        ref: str,
        overrides: Sequence[str] = (),
        *,
        at: str | int = "last",
        seed: int | None = None,
        name: str | None = None,
        key: str | None = None,
    ) -> RunDocument:
        """Put a child into the queue; returns it."""
        body = {"at": str(at), "overrides": [*overrides], "seed": seed, "name": name}
        return self._act(ref, "fork", {field: value for field, value in body.items() if value is not None}, key)

    def wait(self, ref: str, seconds: float | None = None) -> RunDocument:
        """Wait until it neither runs nor waits, or for so many seconds; returns it as it is then."""
        until = None if seconds is None else time.monotonic() + seconds
        pause = FIRST_POLL
        while True:
            run = self.get(ref)
            left = pause if until is None else until - time.monotonic()
            if run["state"] not in GOING or left <= 0:
                return run
            self._connection.pause(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL)

    def config(self, ref: str, against: str | None = None) -> ConfigDocument:
        """Its configuration, and what differs from that of another run (or of its `parent`)."""
        return cast(ConfigDocument, self._connection.get(f"{self._path(ref)}/config", {"against": against}))

    def metrics(self, ref: str) -> MetricsDocument:
        """Which metrics it has, with the newest value of each."""
        return cast(MetricsDocument, self._connection.get(f"{self._path(ref)}/metrics"))

    def series(
        self,
        ref: str,
        names: Sequence[str] = (),
        *,
        points: int = 500,
        start: int | None = None,
        end: int | None = None,
        x: Literal["env_steps", "time"] = "env_steps",
        after: str | None = None,
    ) -> CurvesSince:
        """Curves with at most so many points, extremes kept; with `after` (the `next` of an earlier answer) what is
        new."""
        query = {"names": ",".join(names) or None, "points": points, "from": start, "to": end, "x": x, "after": after}
        return cast(CurvesSince, self._connection.get(f"{self._path(ref)}/series", query))

    def metrics_csv(self, ref: str, names: Sequence[str] = ()) -> Iterator[str]:
        """Lines of `ts,step,key,value,tags`: every value, however many there are."""
        with self._connection.stream(f"{self._path(ref)}/metrics.csv", {"names": ",".join(names) or None}) as response:
            yield from response.iter_lines()

    def events(self, ref: str, after: int = 0, limit: int = 200) -> EventsPage:
        return cast(EventsPage, self._connection.get(f"{self._path(ref)}/events", {"after": after, "limit": limit}))

    def log(self, ref: str, offset: int | None = None, limit: int | None = None) -> LogPiece:
        """A part of its output; a negative offset counts from the end."""
        return cast(LogPiece, self._connection.get(f"{self._path(ref)}/log", {"offset": offset, "limit": limit}))

    def checkpoints(self, ref: str) -> Sequence[CheckpointDocument]:
        return cast("list[CheckpointDocument]", self._connection.get(f"{self._path(ref)}/checkpoints")["items"])

    def artifacts(self, ref: str) -> Sequence[ArtifactDocument]:
        return cast("list[ArtifactDocument]", self._connection.get(f"{self._path(ref)}/artifacts")["items"])

    def download_artifact(self, ref: str, name: str, target: Path) -> Path:
        return save(self._connection, f"{self._path(ref)}/artifacts/{quote(name)}", target)

    def export(
        self, ref: str, checkpoint: str | int = "last", formats: Sequence[str] | None = None, *, key: str | None = None
    ) -> OperationDocument:
        """Start an export; `client.finished(operation)` waits for it, and `client.download` takes the `download` in its
        result."""
        body: dict[str, object] = {"checkpoint": str(checkpoint)}
        if formats is not None:
            body["formats"] = [*formats]
        return cast(OperationDocument, self._connection.post(f"{self._path(ref)}/export", body, key=key))

    def _path(self, ref: str) -> str:
        return f"/runs/{segment(ref)}"

    def _act(
        self, ref: str, verb: str, body: dict[str, object], key: str | None, etag: str | None = None
    ) -> RunDocument:
        return cast(RunDocument, self._connection.post(f"{self._path(ref)}/{verb}", body, key=key, etag=etag))
