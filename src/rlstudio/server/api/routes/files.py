"""What a run has written: its configuration, events, log, checkpoints and artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from rlstudio.control.runs.looking.documents import checkpoint_documents
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RunNotFound, StorageError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.parsing.yaml_text import write_text
from rlstudio.experiment.analysis.compare_runs import differences
from rlstudio.experiment.lineage.secrets import masked_settings
from rlstudio.server.api.answers import Document, answer, without_places
from rlstudio.server.api.download import attachment, type_of
from rlstudio.server.api.routes.runs import LONGEST_WORD, Ref, named_run
from rlstudio.server.api.run_files import events_of, log_piece
from rlstudio.server.api.schemas import ArtifactsSchema, CheckpointsSchema, ConfigSchema, EventsSchema, LogTextSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader
from rlstudio.server.http.problems import RequestRefused
from rlstudio.storage.folder import Folder

MOST_BYTES = 1 << 20
MOST_EVENTS = 1000
MOST_ARTIFACTS = 10_000
DEEPEST_FOLDER = 20
"""Each level costs a look at every one above it, and a tree of a thousand levels would take a core for seconds."""

ADDRESSABLE = re.compile(r"[^\n\ud800-\udfff]{1,1000}")
"""What the path of a request can say: UTF-8, in one line."""

ARTIFACTS = "artifacts"
PARENT = "parent"

router = APIRouter(tags=["runs"])


@router.get("/runs/{ref}/config", response_model=ConfigSchema)
def config(
    caller: Reader,
    service: Served,
    ref: Ref,
    against: Annotated[str, Query(max_length=LONGEST_WORD, description="`parent` or a run: what differs.")] = "",
) -> Response:
    """The complete configuration of a run, with secrets masked; and what differs from that of another one."""
    entry = named_run(service, ref)
    data = config_of(service, entry)
    changes = None
    if against:
        other = _other(service, entry, against)
        changes = [] if other is None else [_change(one) for one in differences(config_of(service, other), data)]
    return answer({"yaml": write_text(data), "config": data, "changes": changes})


def config_of(service: Service, entry: Entry) -> Document:
    stored = entry.run is not None
    text = service.looking.records.config_yaml(entry.id) if stored else entry.folder.read_config()
    masked = masked_settings(dict(read_text(text, "config").data))
    return masked if isinstance(masked, dict) else {}


def _other(service: Service, entry: Entry, against: str) -> Entry | None:
    if against != PARENT:
        return named_run(service, against)
    parent = None if entry.run is None else entry.run.parent_id
    try:
        return None if parent is None else service.listing.find(parent)
    except RunNotFound:  # it lives in another store, or is gone
        return None


def _change(change: object) -> Document:
    document = change.to_json()  # type: ignore[attr-defined]
    return {"field": document["field"], "before": document.get("left"), "after": document.get("right")}


@router.get("/runs/{ref}/events", response_model=EventsSchema)
def events(
    caller: Reader,
    service: Served,
    ref: Ref,
    after: Annotated[int, Query(ge=0, le=10**12, description="`next` of an earlier answer.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 200,
) -> Response:
    """What happened in a run, oldest first: `seq` counts from 1."""
    entry = named_run(service, ref)
    items = []
    for item in events_of(entry, after):
        items.append(item)
        if len(items) == limit:
            break
    return answer({"items": items, "next": items[-1]["seq"] if items else after})


@router.get("/runs/{ref}/log", response_model=LogTextSchema)
def log(
    caller: Reader,
    service: Served,
    ref: Ref,
    offset: Annotated[int, Query(ge=-(10**15), le=10**15, description="Bytes; negative: from the end.")] = -(1 << 16),
    limit: Annotated[int, Query(ge=1, le=MOST_BYTES)] = 1 << 16,
) -> Response:
    """A part of the output of the run and its environment."""
    return answer(log_piece(named_run(service, ref), offset, limit))


@router.get("/runs/{ref}/checkpoints", response_model=CheckpointsSchema)
def checkpoints(caller: Reader, service: Served, ref: Ref) -> Response:
    """The checkpoints of a run, oldest first."""
    entry = named_run(service, ref)
    items = checkpoint_documents(entry.folder) if entry.has_folder else []
    return answer({"items": [without_places(item) for item in items]})


@router.get("/runs/{ref}/artifacts", response_model=ArtifactsSchema)
def artifacts(caller: Reader, service: Served, ref: Ref) -> Response:
    """The files that a run made: videos, exports, tables."""
    entry = named_run(service, ref)
    items = []
    for name in _files(Folder(entry.folder.path)) if entry.has_folder else ():
        size = Folder(entry.folder.path).size(f"{ARTIFACTS}/{name}") or 0
        items.append({"name": name, "size": size, "type": type_of(name)})
        if len(items) == MOST_ARTIFACTS:
            break
    return answer({"items": items})


@router.get("/runs/{ref}/artifacts/{name:path}", response_class=Response)
def artifact(
    caller: Reader, service: Served, request: Request, ref: Ref, name: Annotated[str, Path(max_length=1000)]
) -> Response:
    """One of these files; it accepts a `Range` of bytes."""
    entry = named_run(service, ref)
    try:
        if entry.has_folder and Folder(entry.folder.path).kind(f"{ARTIFACTS}/{name}") == "file":
            return attachment(Folder(entry.folder.path), f"{ARTIFACTS}/{name}", request)
    except StorageError:  # a path that leads elsewhere, a link on the way
        pass
    raise RequestRefused(HTTPStatus.NOT_FOUND, f"run {entry.id}: has no artifact {name[:100]!a}")


def _files(folder: Folder, below: str = "") -> Iterator[str]:
    """Regular files, with the folders between. Passed over: links, and what no address can name."""
    with suppress(StorageError):  # removed meanwhile
        for entry in folder.names(f"{ARTIFACTS}/{below}".rstrip("/")):
            name = f"{below}/{entry}" if below else entry
            kind = folder.kind(f"{ARTIFACTS}/{name}")
            if kind == "folder" and name.count("/") < DEEPEST_FOLDER:
                yield from _files(folder, name)
            elif kind == "file" and not entry.startswith(".") and ADDRESSABLE.fullmatch(name):
                yield name
