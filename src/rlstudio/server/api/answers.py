"""Answers in JSON, and what is left out of the documents that the command line prints: where files lie."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi import Response

from rlstudio.control.references import References
from rlstudio.control.runs.fences import etag_of
from rlstudio.control.runs.looking.documents import entry_document
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import UserError
from rlstudio.server.http.problems import RequestRefused, without_paths

Document = dict[str, Any]


def answer(
    document: object, status: int = HTTPStatus.OK, *, etag: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """A document as it is: schemas describe answers, and nothing makes each of them twice."""
    given = {"Cache-Control": "no-store", **(headers or {})}
    if etag:
        given["ETag"] = f'"{etag}"'
    return Response(encoded(document), status, given, "application/json")


def encoded(document: object) -> bytes:
    """JSON has no NaN and no infinity: they become null."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(document), separators=(",", ":"), allow_nan=False).encode()


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_row(entry: Entry, references: References) -> Document:
    """A run as `rlctl ls --json` has it, with its handle and ETag."""
    document = entry_document(entry)
    document["message"] = without_paths(document["message"])
    return {**document, "handle": references.handle(entry.id), "etag": etag_of(entry)}


def without_places(value: Any) -> Any:
    """Where a file lies is the server's own business: of a path in a text its last part stays."""
    if isinstance(value, Mapping):
        return {name: without_places(inner) for name, inner in value.items() if name not in ("path", "log")}
    if isinstance(value, list | tuple):
        return [without_places(inner) for inner in value]
    return without_paths(value) if isinstance(value, str) else value


@contextmanager
def unknown_is_404() -> Iterator[None]:
    """A name in the path of a request that nothing has."""
    try:
        yield
    except UserError as error:
        raise RequestRefused(HTTPStatus.NOT_FOUND, without_paths(str(error))) from error
