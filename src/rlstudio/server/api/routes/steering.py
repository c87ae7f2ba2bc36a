"""What is asked of runs: stop, cancel, pause, resume, fork, and what their users say about them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from pydantic import Field

from rlstudio.control.lifecycle import Desired
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.runs.fences import DoneBefore, etag_of, once, unchanged
from rlstudio.control.runs.labels import LONGEST_NOTE, check_tags
from rlstudio.control.runs.remove import refuse_referred, remove
from rlstudio.control.runs.stop import EndRequest
from rlstudio.control.sweep.needed import needed_runs
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import Changed, Conflict
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.server.api.answers import answer, run_row
from rlstudio.server.api.routes.experiments import LONGEST_OVERRIDE, MOST_OVERRIDES, Body
from rlstudio.server.api.routes.runs import Ref, named_run
from rlstudio.server.api.schemas import RunSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Actor, Caller

router = APIRouter(tags=["runs"])
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=200, description="The `etag` that was looked at.")]
Override = Annotated[str, Field(max_length=LONGEST_OVERRIDE)]
TAKES_EFFECT: dict[int | str, dict[str, Any]] = {
    202: {"model": RunSchema, "description": "It is on its way: the run ends at its next safe point."}
}


def answered(service: Service, run_id: str, status: int = HTTPStatus.OK) -> Response:
    """The run as it is now."""
    entry = service.looking.find(run_id)
    row = run_row(entry, service.listing.references())
    return answer(row, status, etag=row["etag"], headers={"Location": f"/api/v1/runs/{run_id}"})


def wanted_etag(header: str | None) -> str | None:
    """The one ETag that is asked for; `*` is any."""
    tag = None if header is None else header.strip().removeprefix("W/").strip('"')
    return None if tag == "*" else tag


@router.post("/runs/{ref}/stop", response_model=RunSchema, responses=TAKES_EFFECT)
def stop(caller: Actor, service: Served, ref: Ref, if_match: IfMatch = None) -> Response:
    """Stop a run at its next safe point; it can be resumed."""
    return _end(service, caller, ref, Desired.STOP, if_match)


@router.post("/runs/{ref}/cancel", response_model=RunSchema, responses=TAKES_EFFECT)
def cancel(caller: Actor, service: Served, ref: Ref, if_match: IfMatch = None) -> Response:
    """Take a run out of the queue, or end it for good; what it has written stays."""
    return _end(service, caller, ref, Desired.CANCEL, if_match)


@router.post("/runs/{ref}/pause", response_model=RunSchema, responses=TAKES_EFFECT)
def pause(caller: Actor, service: Served, ref: Ref, if_match: IfMatch = None) -> Response:
    """Stop a run of the queue; it keeps its place there."""
    return _end(service, caller, ref, Desired.STOP, if_match, pause=True)


def _end(
    service: Service, caller: Caller, ref: str, desired: Desired, if_match: str | None, *, pause: bool = False
) -> Response:
    done = run_changed_by(service, caller)
    if done is not None:  # its process reads what is wanted of it, also where the signal was lost with the server
        return _ending(service, done)
    entry, etag = named_run(service, ref), wanted_etag(if_match)
    refuse_changed(entry, etag)
    fence = once(entry.id, caller.key or None, unchanged(entry.id, etag if entry.run is not None else None))
    try:
        after = EndRequest(service.acting, entry.id, desired, pause=pause, fence=fence).deliver()
    except DoneBefore:
        return _ending(service, entry.id)
    except Changed:
        raise
    except Conflict:
        if caller.key and _has_ended(service.looking.find(entry.id), desired, pause):
            return answered(service, entry.id)  # of a run that only its folder records no key is kept
        raise
    return _ending(service, after.id)


def _ending(service: Service, run_id: str) -> Response:
    goes_on = service.looking.find(run_id).status.state in OWNED
    return answered(service, run_id, HTTPStatus.ACCEPTED if goes_on else HTTPStatus.OK)


def run_changed_by(service: Service, caller: Caller) -> str | None:
    """The run that an earlier request with this key has changed; its answer was lost. Looked for before anything else:
    by now `last` may be another run, and the ETag is another for sure."""
    run = service.looking.records.run_of_key(caller.key) if caller.key else None
    return None if run is None else run.id


def _has_ended(entry: Entry, desired: Desired, pause: bool) -> bool:
    if pause:
        return entry.run is not None and entry.run.is_paused
    ended = {RunState.CANCELLED} if desired == Desired.CANCEL else {RunState.INTERRUPTED, RunState.COMPLETED}
    return entry.status.state in ended


def refuse_changed(entry: Entry, etag: str | None) -> None:
    """At once where it is plain; the store says it again inside its transaction."""
    if etag is not None and etag_of(entry) != etag:
        raise Changed(f"run {entry.id}: has changed since it was looked at; it is {entry.status.state} now")


class ResumeBody(Body):
    overrides: list[Override] = Field([], max_length=MOST_OVERRIDES, description="train.epochs=N goes on for longer.")


@router.post("/runs/{ref}/resume", status_code=HTTPStatus.ACCEPTED, response_model=RunSchema)
def resume(
    caller: Actor, service: Served, ref: Ref, body: ResumeBody | None = None, if_match: IfMatch = None
) -> Response:
    """Continue a run, bit for bit, as soon as there is room, or extend a finished one."""
    run_id, etag = run_changed_by(service, caller), wanted_etag(if_match)
    if run_id is None:
        entry = named_run(service, ref)
        refuse_changed(entry, etag)
        run_id = entry.id
    overrides = body.overrides if body is not None else []
    asked = {"run_id": run_id, "overrides": overrides, "etag": etag, "key": caller.key or None}
    return answered(service, service.workbench.do("resume", asked), HTTPStatus.ACCEPTED)


class ForkBody(Body):
    at: str = Field("last", max_length=20, pattern=r"^(last|best|[0-9]{1,18})$", description="last, best or a step.")
    overrides: list[Override] = Field([], max_length=MOST_OVERRIDES)
    seed: int | None = Field(None, ge=0, le=2**32 - 1)
    name: str | None = Field(None, max_length=64)


@router.post("/runs/{ref}/fork", status_code=HTTPStatus.CREATED, response_model=RunSchema)
def fork(caller: Actor, service: Served, ref: Ref, body: ForkBody | None = None) -> Response:
    """Put a child run into the queue, from a checkpoint of a run and with settings of its own."""
    entry, given = named_run(service, ref), body or ForkBody()
    arguments = {
        "run_id": entry.id,
        "at": given.at,
        "overrides": given.overrides,
        "seed": given.seed,
        "name": given.name,
        "key": caller.key or None,
    }
    return answered(service, service.workbench.do("fork", arguments), HTTPStatus.CREATED)


class ChangeBody(Body):
    tags: list[Annotated[str, Field(max_length=64)]] | None = Field(None, max_length=100)
    note: str | None = Field(None, max_length=LONGEST_NOTE)
    priority: int | None = Field(None, ge=-1000, le=1000, description="Queued runs with a higher one start first.")


@router.patch("/runs/{ref}", response_model=RunSchema)
def change(caller: Actor, service: Served, ref: Ref, body: ChangeBody, if_match: IfMatch = None) -> Response:
    """Change what its user says about a run; what is left out stays as it is."""
    entry = named_run(service, ref)
    etag = wanted_etag(if_match)
    refuse_changed(entry, etag)
    if body.tags is not None:
        check_tags(body.tags)
    run = known_run(service.acting, entry.id)
    # One that was adopted just now is what the caller looked at.
    fence = unchanged(run.id, etag if entry.run is not None else None)
    service.acting.store.annotate(run.id, tags=body.tags, note=body.note, priority=body.priority, fence=fence)
    return answered(service, run.id)


@router.delete("/runs/{ref}", status_code=HTTPStatus.NO_CONTENT, response_class=Response)
def delete(caller: Actor, service: Served, ref: Ref, if_match: IfMatch = None) -> Response:
    """Delete a run with all its files. Refused: a running one, one that others descend from or that a sweep needs."""
    entry = named_run(service, ref)
    refuse_changed(entry, wanted_etag(if_match))
    service.acting.reap()
    entry = service.acting.find(entry.id)
    needed = needed_runs(service.acting.store, [entry.run] if entry.run else [])
    for need in needed.values():
        raise Conflict(f"run {entry.id}: {need.why}; {need.lost}")
    if entry.status.state in OWNED:
        raise Conflict(f"run {entry.id}: is {entry.status.state}; stop it first")
    refuse_referred(service.acting, {entry.id})
    remove(service.acting, entry)
    return Response(status_code=HTTPStatus.NO_CONTENT)
