"""Runs: list, show, change what their users say about them, remove."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from rlstudio.control.runs.fences import etag_of
from rlstudio.control.runs.looking.documents import lineage_document, whole_document
from rlstudio.control.store.pages import RowPlace, RunFilter, RunOrder
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.server.api.answers import Document, answer, run_row, unknown_is_404, without_places
from rlstudio.server.api.schemas import RunPageSchema, WholeRunSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

MOST_RUNS = 500
LONGEST_WORD = 200

router = APIRouter(tags=["runs"])
Ref = Annotated[str, Path(max_length=LONGEST_WORD, description="Id, handle or unique name of a run.")]
Words = Annotated[list[Annotated[str, Query(max_length=LONGEST_WORD)]], Query(max_length=100)]


def named_run(service: Service, ref: str) -> Entry:
    """The run that the path of a request names; a path of the file system is no name here."""
    with unknown_is_404():
        if "/" in ref or "\0" in ref:
            raise UserError(f"run {ref!r}: is not an id, a handle or a name")
        return service.listing.find(ref)


@router.get("/runs", response_model=RunPageSchema)
def list_runs(
    caller: Reader,
    service: Served,
    state: Words = [],  # noqa: B006
    env: Words = [],  # noqa: B006
    algo: Words = [],  # noqa: B006
    tag: Words = [],  # noqa: B006
    name: Words = [],  # noqa: B006
    id: Words = [],  # noqa: B006
    q: Annotated[str, Query(max_length=LONGEST_WORD, description="In id, name, algo, env, tags or note.")] = "",
    sort: Annotated[str, Query(max_length=32, description="A field of a run; `-` before it: largest first.")] = "-id",
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 100,
    cursor: Annotated[str, Query(max_length=1000, description="`next_cursor` of the page before.")] = "",
    spark: Annotated[int, Query(ge=0, le=200, description="Points of a small curve of the return of each run.")] = 0,
) -> Response:
    """Runs, newest first unless `sort` says otherwise. Pages neither repeat nor miss a run while others appear."""
    order = RunOrder.parse(sort)
    known = [str(other).lower() for other in RunState]
    for one in state:
        if one.lower() not in known:
            raise UserError(f"state: {one!r} is unknown; choose from {', '.join(known)}")
    page = service.listing.page(RunFilter(state, env, algo, tag, name, id, q), order, _place(cursor, order), limit)
    references = service.listing.references()
    items = [run_row(entry, references) for entry in page.entries]
    if spark:
        for item, entry in zip(items, page.entries, strict=True):
            item["spark"] = service.sparks.of(entry, spark)
    return answer({"items": items, "next_cursor": _cursor(page.last, order), "total": page.total})


@router.get("/runs/{ref}", response_model=WholeRunSchema)
def show_run(caller: Reader, service: Served, ref: Ref) -> Response:
    """Everything about one run: progress, hashes, checkpoints, origin and children."""
    entry = named_run(service, ref)
    return answer(whole_run(service, entry), etag=etag_of(entry))


def whole_run(service: Service, entry: Entry) -> Document:
    lineage = lineage_document(service.looking, entry)
    document = whole_document(entry, service.listing.references())
    labels = {name: document[name] for name in ("tags", "note")} if entry.run is not None else {}  # by its user
    more = {part: lineage[part] for part in ("lineage", "relatives", "history")}
    return {**without_places({**document, **more}), **labels, "etag": etag_of(entry)}


def _cursor(place: RowPlace | None, order: RunOrder) -> str | None:
    if place is None:
        return None
    text = json.dumps([str(order), place.value, place.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place(cursor: str, order: RunOrder) -> RowPlace | None:
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        sort, value, run_id = json.loads(text)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        sort, value, run_id = None, None, None
    if isinstance(run_id, str) and isinstance(sort, str) and sort != str(order):
        raise UserError(f"cursor: is of a list that is sorted by {sort!a}, not by {order}; begin at the first page")
    if not isinstance(run_id, str) or not order.takes(value):
        raise UserError("cursor: is not a `next_cursor` of this list; leave it out to begin at the first page")
    return RowPlace(value, run_id)
