"""The registry: models, their versions, and the decisions about them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from rlstudio.control.registry.documents import decision_document, models_document, version_document
from rlstudio.control.registry.records import Version, check_model
from rlstudio.control.registry.releases import Releases
from rlstudio.server.api.answers import Document, answer, unknown_is_404
from rlstudio.server.api.schemas import DecisionsSchema, ModelPageSchema, ModelSchema, VersionSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Reader

router = APIRouter(tags=["models"])
ModelName = Annotated[str, Path(max_length=64, description="Name of a model.")]
Number = Annotated[int, Path(ge=1, le=10**9)]


@router.get("/models", response_model=ModelPageSchema)
def list_models(caller: Reader, service: Served) -> Response:
    """Every version of every model, as `rlctl models --json`."""
    versions = Releases(service.looking).versions()
    by_name: dict[str, list[Version]] = {}
    for version in versions:
        by_name.setdefault(version.model, []).append(version)
    items = [_summary(name, own) for name, own in by_name.items()]
    return answer({"items": items, **models_document(versions, [])})


def _summary(name: str, versions: list[Version]) -> Document:
    stages = {str(version.stage): version.version for version in reversed(versions)}
    return {
        "name": name,
        "versions": len(versions),
        "newest": max(version.version for version in versions),
        "production": stages.get("production"),
        "staging": stages.get("staging"),
        "etag": models_etag(versions),
    }


def models_etag(versions: list[Version]) -> str:
    """Differs once a version was added or changed its stage."""
    newest = max(version.version for version in versions)
    stages = "-".join(f"{version.version}.{version.stage}" for version in versions if version.stage in LIVE)
    return f"{newest}-{stages}"


LIVE = ("production", "staging")


@router.get("/models/{name}", response_model=ModelSchema)
def show_model(caller: Reader, service: Served, name: ModelName) -> Response:
    """The versions of one model, newest first, and every decision about it."""
    releases = Releases(service.looking)
    with unknown_is_404():
        check_model(name)
        versions = releases.versions(name)
    etag = models_etag(versions)
    document = models_document(versions, releases.history(name))
    return answer({**_summary(name, versions), **document, "name": name}, etag=etag)


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
