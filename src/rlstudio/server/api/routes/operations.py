"""Operations: what takes minutes, in a process of its own; ask for it by its id."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from rlstudio.server.api.answers import Document, answer
from rlstudio.server.api.download import attachment
from rlstudio.server.api.routes.experiments import Body
from rlstudio.server.api.routes.runs import Ref, named_run
from rlstudio.server.api.schemas import OperationSchema
from rlstudio.server.api.service import Served, Service
from rlstudio.server.http.callers import Actor, Caller, Reader
from rlstudio.server.http.problems import RequestRefused

CHECKPOINT = r"^(last|best|[0-9]{1,18})$"

router = APIRouter(tags=["operations"])
Format = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,30}$")]
OperationId = Annotated[str, Path(max_length=24, pattern=r"^[0-9a-f]{24}$")]


class ExportBody(Body):
    checkpoint: str = Field("last", max_length=20, pattern=CHECKPOINT, description="last, best or a step.")
    formats: list[Format] | None = Field(None, max_length=8, description="Null: those that are installed.")


@router.post("/runs/{ref}/export", status_code=HTTPStatus.ACCEPTED, response_model=OperationSchema)
def export(caller: Actor, service: Served, ref: Ref, body: ExportBody | None = None) -> Response:
    """Ship the policy of a run as a bundle. An operation: when it is done it has a `download`."""
    given = body or ExportBody()
    arguments = {"run_id": named_run(service, ref).id, **given.model_dump()}
    return begun(service, caller, "export", arguments)


def begun(service: Service, caller: Caller, kind: str, arguments: dict[str, Any]) -> Response:
    """The operation, and where to ask for it."""
    document = service.operations.begin(kind, arguments, caller.key)
    return answer(document, HTTPStatus.ACCEPTED, headers={"Location": f"/api/v1/operations/{document['id']}"})


@router.get("/operations/{operation}", response_model=OperationSchema)
def show_operation(caller: Reader, service: Served, operation: OperationId) -> Response:
    """The state of an operation, and its result."""
    return answer(_operation(service, operation))


@router.get("/operations/{operation}/download", response_class=Response)
def download(caller: Reader, service: Served, request: Request, operation: OperationId) -> Response:
    """The result of an export: a tar archive."""
    document = _operation(service, operation)
    if "download" not in document:
        raise RequestRefused(HTTPStatus.NOT_FOUND, f"operation {operation}: has made no file")
    called = f"{(document['result'] or {}).get('name', operation)}.tar"
    return attachment(service.operations.folder, f"{operation}.tar", request, called)


def _operation(service: Service, operation: str) -> Document:
    document = service.operations.read(operation)
    if document is None:
        raise RequestRefused(HTTPStatus.NOT_FOUND, f"operation {operation}: there is no such operation")
    return document
