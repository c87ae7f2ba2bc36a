"""The registry: models, their versions, and the decisions about them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from rlstudio.control.registry.documents import decision_document, models_document, version_document
from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import ROLLBACK, Stage, Version, check_model, is_reference, parse_reference
from rlstudio.control.registry.registry import before_production
from rlstudio.control.registry.releases import Releases, refuse_empty_reason
from rlstudio.core.config import parse
from rlstudio.core.errors import Changed, UserError
from rlstudio.server.api.answers import answer, unknown_is_404
from rlstudio.server.api.group_schemas import DecisionsSchema, ModelPageSchema, ModelSchema, VersionSchema
from rlstudio.server.api.lists import model_row, models_etag, models_list
from rlstudio.server.api.routes.experiments import Body
from rlstudio.server.api.routes.operations import CHECKPOINT, begun
from rlstudio.server.api.routes.runs import named_run
from rlstudio.server.api.routes.steering import IfMatch, wanted_etag
from rlstudio.server.api.schemas import OperationSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.api.work.bundles import tar_pieces
from rlstudio.server.http.callers import Actor, Caller, Reader

router = APIRouter(tags=["models"])
TAR: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}, "description": "A tar."}
}
ModelName = Annotated[str, Path(max_length=64, description="Name of a model.")]
Number = Annotated[int, Path(ge=1, le=10**9)]


@router.get("/models", response_model=ModelPageSchema)
def list_models(caller: Reader, service: Served) -> Response:
    """Every version of every model, as `rlctl models --json`."""
    return answer(models_list(service.looking))


@router.get("/models/{name}", response_model=ModelSchema)
def show_model(caller: Reader, service: Served, name: ModelName) -> Response:
    """The versions of one model, newest first, and every decision about it."""
    releases = Releases(service.looking)
    with unknown_is_404():
        check_model(name)
        versions, history = releases.versions(name), releases.history(name)
    document = models_document(versions, history) | {"name": name, "before": before_production(history)}
    return answer(model_row(name, versions) | document, etag=models_etag(versions))


@router.get("/models/{name}/versions/{number}", response_model=VersionSchema)
def show_version(caller: Reader, service: Served, name: ModelName, number: Number) -> Response:
    """One version."""
    return answer(version_document(version_of(service, name, number)))


def version_of(service: Service, name: str, number: int) -> Version:
    with unknown_is_404():
        check_model(name)
        return Releases(service.looking).find(f"{name}:{number}")


@router.get("/models/{name}/audit", response_model=DecisionsSchema)
def audit(caller: Reader, service: Served, name: ModelName) -> Response:
    """Every decision about a model, oldest first, with the numbers it rests on."""
    releases = Releases(service.looking)
    with unknown_is_404():
        check_model(name)
        releases.versions(name)
    return answer({"items": [decision_document(decision) for decision in releases.history(name)]})


@router.get("/models/{name}/versions/{number}/bundle", response_class=StreamingResponse, responses=TAR)
def bundle(caller: Reader, service: Served, name: ModelName, number: Number) -> Response:
    """The policy of a version as a tar archive, verified to the last byte."""
    version = version_of(service, name, number)
    shipped = Releases(service.looking).bundle(version)
    called = f"{name}-{number}"
    headers = {
        "Content-Disposition": f'attachment; filename="{called}.tar"',
        "ETag": f'"{version.digest}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(tar_pieces(shipped, called), media_type="application/x-tar", headers=headers)


class PromoteBody(Body):
    what: str = Field(max_length=200, description="A run, MODEL:3 or MODEL:staging.")
    to: Literal["staging", "production"] = "staging"
    checkpoint: str = Field("last", max_length=20, pattern=CHECKPOINT)
    if_current: int | None = Field(None, ge=0, le=10**9, description="Only if this version is in production; 0: none.")
    force: str | None = Field(None, max_length=2000, description="Promote without a comparison; the reason is kept.")
    settings: dict[str, Any] = Field({}, description="Of the decision: margin, alpha, budget, min_return, ...")


@router.post("/models/{name}/promote", status_code=HTTPStatus.ACCEPTED, response_model=OperationSchema)
def promote(caller: Actor, service: Served, name: ModelName, body: PromoteBody, if_match: IfMatch = None) -> Response:
    """Put a trained policy into a stage; into production only if it is better. An operation: its result is the version
    with every number of the verdict."""
    check_model(name)
    what = body.what
    if is_reference(what):
        model, _ = parse_reference(what)
        if model != name:
            raise UserError(f"what: {what} is of another model than {name}")
    else:
        what = named_run(service, what).id
    parse(PromotionConfig, body.settings, "settings")
    refuse_empty_reason(body.force)
    arguments = {**body.model_dump(), "what": what, "model": name}
    etag = wanted_etag(if_match)
    if etag is not None:
        production = _expected_production(service, caller, name, etag)
        if body.if_current is None:  # its process begins later, and looks again
            arguments["if_current"] = production
    return begun(service, caller, "promote", arguments)


def _expected_production(service: Service, caller: Caller, name: str, etag: str) -> int:
    """The version that was in production in the state that the caller looked at; 0: none was."""
    versions = [version for version in Releases(service.looking).versions() if version.model == name]
    # As it was when this was first asked: a version that the same request has registered since is no reason.
    now = f"{_in_production(versions)} {models_etag(versions) if versions else ''}"
    production, _, first = caller.remember(now).partition(" ")
    if etag != first:
        raise Changed(f"model {name}: has changed since it was looked at")
    return int(production)


def _in_production(versions: list[Version]) -> int:
    return next((version.version for version in versions if version.stage == Stage.PRODUCTION), 0)


class RollbackBody(Body):
    reason: str = Field("", max_length=2000, description="Kept in the history.")
    if_current: int | None = Field(None, ge=0, le=10**9, description="Only if this version is in production.")


@router.post("/models/{name}/rollback", response_model=VersionSchema)
def rollback(
    caller: Actor, service: Served, name: ModelName, body: RollbackBody | None = None, if_match: IfMatch = None
) -> Response:
    """Put the previous production version back into production."""
    given, releases = body or RollbackBody(), Releases(service.acting)
    with unknown_is_404():
        check_model(name)
        versions = Releases(service.looking).versions(name)
    current = next((version for version in versions if version.stage == Stage.PRODUCTION), None)
    # Whatever happens meanwhile: what was in production when this was first asked is what is taken back.
    asked_of = int(caller.remember(str(current.version if current else 0)))
    if current is not None and current.version != asked_of and _came_by_rollback(releases, current):
        return answer(version_document(current))  # the same request again: it was done, and its answer was lost
    etag = wanted_etag(if_match)
    if etag is not None and etag != models_etag(versions):
        raise Changed(f"model {name}: has changed since it was looked at")
    expected = asked_of if given.if_current is None else given.if_current
    return answer(version_document(releases.rollback(name, if_current=expected, reason=given.reason)))


def _came_by_rollback(releases: Releases, current: Version) -> bool:
    decisions = releases.history(current.model)
    return next(made.kind for made in reversed(decisions) if made.stage == Stage.PRODUCTION) == ROLLBACK
