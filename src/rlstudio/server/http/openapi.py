"""The OpenAPI document of an application, as it answers: errors are problem+json, and a token is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rlstudio.server.http.problems import MEDIA_TYPE, ProblemDocument

REFERENCE = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
REFUSED = {"4XX": "The request is refused; `problems` name the fields.", "5XX": "It cannot be done now."}
INTERNAL = ("HTTPValidationError", "ValidationError")
"""FastAPI's own error answers, which nobody gets."""


def document_of(app: FastAPI) -> dict[str, Any]:
    """Made once, and kept."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        components = made.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for name in INTERNAL:
            schemas.pop(name, None)
        schemas[ProblemDocument.__name__] = ProblemDocument.model_json_schema()
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        for operation in _operations(made):
            responses = {status: of for status, of in operation["responses"].items() if status not in ("422", *REFUSED)}
            for status, description in REFUSED.items():
                responses[status] = {"description": description, "content": {MEDIA_TYPE: {"schema": REFERENCE}}}
            operation["responses"] = responses
        app.openapi_schema = made
    return app.openapi_schema


def _operations(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in made["paths"].values():
        yield from (
            operation for operation in path.values() if isinstance(operation, dict) and "responses" in operation
        )
